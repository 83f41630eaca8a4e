"""`holdfast budgets`."""

from __future__ import annotations

import json

import pytest

from holdfast import Engine, spend, step, workflow


@step
async def burn(tokens: int) -> None:
    spend(tokens=tokens)


@workflow
async def burner(*tokens: int) -> None:
    for n in tokens:
        await burn(n)


@pytest.fixture
def call(tmp_path):
    from click.testing import CliRunner

    from holdfast.cli.root import cli

    database = str(tmp_path / "cli.db")
    Engine(database).close()

    def call(*words, code=0):
        found = CliRunner().invoke(cli, ["--db", database, *words])
        assert found.exit_code == code, found.output
        return found.output if code == 0 else found.stderr

    call.database = database
    return call


def test_a_budget_is_made_changed_raised_reset_and_shown(call):
    call("budgets", "set", "team", "tokens=100", "money=2.5", "--soft", "tokens=80", "--reset", "day", "--zone", "Europe/Berlin")
    call("budgets", "set", "team", "calls=none", "--on-breach", "fail")
    call("budgets", "raise", "team", "tokens=50", "--key", "k")
    call("budgets", "raise", "team", "tokens=50", "--key", "k")
    call("budgets", "reset", "team")

    found = json.loads(call("budgets", "show", "team", "--json"))

    assert found["dimensions"] == {
        "calls": {"used": 0, "reserved": 0, "soft": None, "hard": None},
        "money": {"used": 0, "reserved": 0, "soft": None, "hard": "2.5"},
        "tokens": {"used": 0, "reserved": 0, "soft": 80, "hard": 150},
    }
    assert (found["on_breach"], found["resets"], found["reset_count"]) == ("fail", "day (Europe/Berlin)", 1)
    assert "team" in call("budgets")
    assert [one["name"] for one in json.loads(call("budgets", "--json"))] == ["team"]


def test_a_report_says_who_has_spent_what_and_a_budget_who_waits(call):
    with Engine(call.database) as engine:
        done = engine.start(burner, 5, 6, budget={"tokens": 100})
        done.result(timeout=20)
        waiting = engine.start(burner, 5, 6, budget={"tokens": 1})
        while waiting.status != "blocked":
            engine.check()

    assert json.loads(call("budgets", "report", done.id, "--json"))["total"] == {"tokens": 11}
    assert "tokens" in call("budgets", "report", done.id)
    assert json.loads(call("budgets", "show", f"tree:{waiting.id}", "--json"))["waiting"] == [waiting.id]
    assert waiting.id in call("budgets", "show", f"tree:{waiting.id}")
    assert f"holdfast budgets raise tree:{waiting.id} tokens=4" in call("why", waiting.id)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "nobody"], 1, "no such budget"),
        (["raise", "nobody", "tokens=1"], 1, "no such budget"),
        (["set", "new"], 2, "name what is limited"),
        (["set", "new", "tokens=-1"], 2, "must not be negative"),
        (["set", "new", "tokens"], 2, "no amount such as tokens=1000"),
        (["set", "new", "tokens=1", "--reset", "sometimes"], 2, "no duration"),
        (["set", "new", "tokens=1", "--zone", "Nowhere"], 2, "no time zone"),
        (["raise", "new"], 2, "Missing argument"),
    ],
)
def test_what_cannot_be_is_one_line_on_stderr(call, words, code, said):
    assert said in call("budgets", *words, code=code)
    assert json.loads(call("budgets", "--json")) == []
