"""``holdfast run``."""

from __future__ import annotations

import json

from holdfast import Engine


def test_it_works_until_the_run_has_ended_and_prints_its_result(call):
    assert call.run("shop.py:checkout", "3", '["a", "b"]') == {
        "payment": "paid 3",
        "parcels": ["packed a", "packed b"],
    }


def test_a_dotted_module_in_the_current_folder_is_found(call):
    assert call.run("shop:parcel", '"x"') == "packed x"


def test_stdout_is_one_line_of_json_and_nothing_else(execute):
    done = execute("run", "shop.py:checkout", "3")

    assert done.returncode == 0
    assert json.loads(done.stdout) == {"payment": "paid 3", "parcels": ["packed a"]}
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_a_negative_number_is_an_argument_and_a_typo_is_none(call):
    assert call.run("shop.py:checkout", "-5")["payment"] == "paid -5"
    assert "No such option" in call.error("run", "shop.py:checkout", "--prioritty", "5", code=2)


def test_detached_it_only_starts_it(call):
    run_id = call.start("shop.py:parcel", '"x"')

    shown = call.json("show", run_id)

    assert shown["status"] == "pending"
    assert shown["history"] == []


def test_detached_with_json_it_tells_id_and_status(call):
    data = call.json("run", "shop.py:parcel", '"x"', "--detach")

    assert data["status"] == "pending"
    assert call.json("show", "last")["id"] == data["id"]


def test_all_options_reach_the_run(call):
    call.start(
        "shop.py:parcel",
        '"x"',
        "--id",
        "order-7",
        "--key",
        "k7",
        "--lane",
        "slow",
        "--priority",
        "9",
        "--delay",
        "1h",
        "--deadline",
        "2h",
        "--tag",
        "customer=7",
        "--tag",
        "kind=a=b",
    )

    shown = call.json("show", "order-7")

    assert {name: shown[name] for name in ("id", "key", "lane", "priority", "tags")} == {
        "id": "order-7",
        "key": "k7",
        "lane": "slow",
        "priority": 9,
        "tags": {"customer": "7", "kind": "a=b"},
    }
    assert shown["wake_at"] is not None
    assert shown["deadline"] > shown["wake_at"]


def test_the_same_key_is_the_same_run(call):
    first = call.start("shop.py:parcel", '"x"', "--key", "k")

    assert call.start("shop.py:parcel", '"x"', "--key", "k") == first
    assert "belongs to a run with another input" in call.error(
        "run", "shop.py:parcel", '"y"', "--key", "k", "--detach"
    )


def test_a_failed_run_is_one_line_and_exit_code_1(call):
    line = call.error("run", "shop.py:failing")

    assert line.startswith("holdfast: ValueError: out of stock (in run ")


def test_wrong_arguments_start_nothing(call):
    assert "missing a required argument: 'item'" in call.error("run", "shop.py:parcel")
    assert "Expected `str`, got `int`" in call.error("run", "shop.py:parcel", "5")
    assert call.text("runs") == "no runs\n"


def test_the_database_may_be_named_after_the_command(call, tmp_path):
    call("run", "shop.py:parcel", '"x"', "--db", tmp_path / "other.db")

    with Engine(tmp_path / "other.db", workflows=[]) as engine:
        assert engine.runs().count() == 1
