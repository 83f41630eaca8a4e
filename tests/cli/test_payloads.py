"""The command line with large values, encrypted databases and retention rules."""

from __future__ import annotations

import base64
import json

import pytest

K1, K2 = (base64.b64encode(letter * 32).decode() for letter in (b"1", b"2"))
BIG = json.dumps("x" * 100_000)


@pytest.fixture
def keys(monkeypatch):
    """Give keys to the command line, the current one first; none without any."""

    def give(*ids: str) -> None:
        known = {"k1": K1, "k2": K2}
        monkeypatch.setenv("HOLDFAST_KEYS", ",".join(f"{one}={known[one]}" for one in ids))

    monkeypatch.delenv("HOLDFAST_KEYS", raising=False)
    monkeypatch.delenv("HOLDFAST_CODEC", raising=False)
    return give


def test_a_large_value_is_shown_in_full_as_json_and_named_elsewhere(call, keys):
    call.run("shop.py:parcel", BIG)

    assert len(call.json("show", "last")["result"]) == 100_007
    assert "kept apart" in call.json("runs")["items"][0]["result"]
    assert "kept apart" in call.text("show", "last")
    assert "kept apart" in call.text("runs")
    assert call.json("db", "info")["payloads"] == 2
    assert call.json("db", "check")["payloads"] == 2


def test_an_encrypted_run_is_readable_with_its_key_only(call, keys, monkeypatch):
    keys("k1")
    call.run("shop.py:parcel", '"gold"')

    assert call.json("show", "last")["result"] == "packed gold"
    assert call.json("doctor")["facts"]["keys"] == {"k1": 3}

    monkeypatch.delenv("HOLDFAST_KEYS")
    assert "encrypted with key k1" in call.json("show", "last")["result"]
    assert "gold" not in call.text("show", "last")
    assert "gold" not in call.text("runs")
    assert "encrypted with key k1" in call.text("why", "last")
    assert "key k1: 3 values, key unknown" in call.text("db", "check")
    assert call.json("doctor")["warnings"]
    assert "encrypted" in call.error("run", "shop.py:parcel", '"gold"')


def test_without_a_key_nothing_is_written_in_clear(call, keys, monkeypatch):
    keys("k1")
    run = call.text("run", "shop.py:listener", "--detach").strip()
    monkeypatch.delenv("HOLDFAST_KEYS")

    assert "no key is known here" in call.error("signal", run, "paid", '"gold"')
    assert call.json("cancel", run)


def test_rekeying_tells_what_it_did(call, keys):
    keys("k1")
    call.run("shop.py:parcel", BIG)
    keys("k2", "k1")

    done = call.json("db", "rekey")
    assert (done["runs"], done["unreadable"], list(done["keys"])) == (1, {}, ["k2"])
    assert "0 values of 1 runs" in call.text("db", "rekey")


def test_rekeying_without_keys_is_refused(call, keys):
    call.run("shop.py:parcel", '"a"')

    assert "current key" in call.error("db", "rekey", code=2)


def test_a_codec_can_be_named(call, keys, folder):
    (folder / "secrets_of_shop.py").write_text(
        "from holdfast.codecs import Encrypted\ndef codec():\n"
        "    return Encrypted({'k1': b'1' * 32}, 'k1')\nnothing = 7\nodd = dict\n"
    )
    call.text("--codec", "secrets_of_shop.py:codec", "run", "shop.py:parcel", '"gold"')

    assert (
        call.json("--codec", "secrets_of_shop.py:codec", "show", "last")["result"] == "packed gold"
    )
    assert "neither a codec" in call.error("--codec", "secrets_of_shop.py:nothing", "runs", code=2)
    assert "is not a codec" in call.error("--codec", "secrets_of_shop.py:odd", "runs", code=2)


def test_malformed_keys_are_refused_and_not_shown(call, keys, monkeypatch):
    call.run("shop.py:parcel", '"a"')
    monkeypatch.setenv("HOLDFAST_KEYS", "k1=very-secret")

    told = call.error("runs", code=2)
    assert "base64" in told and "very-secret" not in told


def test_rules_are_set_listed_previewed_followed_and_removed(call, keys):
    call.run("shop.py:parcel", '"a"')
    rule = call.json(
        "db",
        "retention",
        "set",
        "old",
        "--workflow",
        "parcel",
        "--older-than",
        "0s",
        "--status",
        "completed",
    )
    assert (rule["name"], rule["workflow"], rule["status"]) == ("old", "parcel", ["completed"])
    assert "parcel" in call.text("db", "retention")
    assert [
        (one["name"], one["runs"]) for one in call.json("db", "retention", "apply", "--dry-run")
    ] == [("old", 1)]
    assert "old" in call.text("db", "retention", "apply", "--dry-run")
    assert "use --yes" in call.error("db", "retention", "apply", code=2)
    assert call.json("db", "retention", "apply", "--yes") == {"runs": 1}
    assert call.json("runs")["items"] == []
    assert call.text("db", "retention", "remove", "old", "--yes") == "rule old removed\n"
    assert "no such retention rule" in call.error("db", "retention", "remove", "old", "--yes")


@pytest.mark.parametrize(
    ("options", "told", "code"),
    [
        ([], "no bound", 2),
        (["--older-than", "1d", "--workflow", "nobody"], "nobody", 1),
        (["--keep-last", "-1"], "keep_last", 2),
        (["--max-size", "much"], "not a size", 2),
        (["--max-size", "-5MB"], "not a size", 2),
        (["--older-than", "soon"], "duration", 2),
        (["--older-than", "1d", "--target", "dreams"], "dreams", 2),
        (["--older-than", "1d", "--status", "running"], "finished", 2),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(call, keys, options, told, code):
    call.run("shop.py:parcel", '"a"')

    assert told in call.error("db", "retention", "set", "bad", *options, code=code)
    assert call.items("db", "retention") == []


def test_sizes_are_read_and_written(call, keys):
    call.run("shop.py:parcel", '"a"')

    assert (
        call.json("db", "retention", "set", "room", "--max-size", "1.5GB")["max_bytes"]
        == 1_500_000_000
    )
    assert "1.5 GB" in call.text("db", "retention")


def test_a_change_of_a_rule_keeps_the_settings_that_are_not_named(call, keys):
    call.run("shop.py:parcel", '"a"')
    first = ["--workflow", "parcel", "--status", "failed", "--target", "events"]
    rule = call.json("db", "retention", "set", "old", *first, "--older-than", "30d")

    changed = call.json("db", "retention", "set", "old", "--keep-last", "5")

    assert changed == {**rule, "keep_last": 5}


def test_pruning_can_name_a_workflow(call, keys):
    call.run("shop.py:parcel", '"a"')

    assert call.json("db", "prune", "--older-than", "0s", "--workflow", "other", "--yes") == {
        "runs": 0,
        "dry_run": False,
    }
    assert call.json("db", "prune", "--older-than", "0s", "--workflow", "parcel", "--dry-run") == {
        "runs": 1,
        "dry_run": True,
    }
    assert (
        call.json("db", "prune", "--older-than", "0s", "--workflow", "parcel", "--yes")["runs"] == 1
    )


def test_long_work_shows_on_a_terminal_how_far_it_has_come(call, keys, terminal, tmp_path):
    run = call.text("run", "shop.py:family", '["a", "b"]')
    assert run

    assert "every law holds" in terminal("db", "check")
    assert "4 runs copied" in terminal("db", "export", "last", str(tmp_path / "copy.db"))
    call.json("db", "retention", "set", "all", "--older-than", "0s")
    assert "4 runs deleted or trimmed" in terminal("db", "retention", "apply", "--yes")
