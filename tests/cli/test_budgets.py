"""`holdfast budgets`."""

from __future__ import annotations

import json

import pytest

from holdfast import Engine, step, workflow
from holdfast.budgets import spend


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

    from holdfast.cli.main import cli

    database = str(tmp_path / "cli.db")
    Engine(database).close()

    def call(*words, code=0):
        invoked = CliRunner().invoke(cli, ["--db", database, *words])
        assert invoked.exit_code == code, invoked.output
        return invoked.output if code == 0 else invoked.stderr

    call.database = database
    return call


def test_a_budget_is_made_changed_raised_reset_and_shown(call):
    call(
        "budgets",
        "set",
        "team",
        "tokens=100",
        "money=2.5",
        "--soft",
        "tokens=80",
        "--reset",
        "day",
        "--zone",
        "Europe/Berlin",
    )
    call("budgets", "set", "team", "calls=none", "--on-breach", "fail")
    call("budgets", "raise", "team", "tokens=50", "--key", "k")
    call("budgets", "raise", "team", "tokens=50", "--key", "k")
    call("budgets", "reset", "team")

    data = json.loads(call("budgets", "show", "team", "--json"))

    assert data["dimensions"] == {
        "calls": {"used": 0, "reserved": 0, "soft": None, "hard": None},
        "money": {"used": 0, "reserved": 0, "soft": None, "hard": 2.5},
        "tokens": {"used": 0, "reserved": 0, "soft": 80, "hard": 150},
    }
    assert (data["on_breach"], data["resets"], data["reset_count"]) == (
        "fail",
        "day (Europe/Berlin)",
        1,
    )
    assert "team" in call("budgets")
    assert [budget["name"] for budget in json.loads(call("budgets", "--json"))["items"]] == ["team"]


def test_a_report_says_who_has_spent_what_and_a_budget_who_waits(call):
    with Engine(call.database) as engine:
        done = engine.start(burner, 5, 6, budget={"tokens": 100})
        done.result(timeout=20)
        waiting = engine.start(burner, 5, 6, budget={"tokens": 1})
        while waiting.status != "blocked":
            engine.database.check()

    assert json.loads(call("budgets", "usage", done.id, "--json"))["total"] == {"tokens": 11}
    assert "tokens" in call("budgets", "usage", done.id)
    assert json.loads(call("budgets", "show", f"tree:{waiting.id}", "--json"))["waiting"] == [
        waiting.id
    ]
    assert waiting.id in call("budgets", "show", f"tree:{waiting.id}")
    assert f"holdfast budgets raise tree:{waiting.id} tokens=4" in call("why", waiting.id)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "nobody"], 1, "no such budget"),
        (["raise", "nobody", "tokens=1"], 1, "no such budget"),
        (["set", "new"], 2, "name at least one dimension"),
        (["set", "new", "tokens=-1"], 2, "must not be negative"),
        (["set", "new", "tokens"], 2, "not an amount such as tokens=1000"),
        (["set", "new", "tokens=1", "--reset", "sometimes"], 2, "not a duration"),
        (["set", "new", "tokens=1", "--zone", "Nowhere"], 2, "name of a time zone"),
        (["raise", "new"], 2, "Missing argument"),
    ],
)
def test_what_cannot_be_is_one_line_on_stderr(call, words, code, said):
    assert said in call("budgets", *words, code=code)
    assert json.loads(call("budgets", "--json"))["items"] == []


def test_what_was_spent_elsewhere_is_counted_once(call):
    call("budgets", "set", "team", "tokens=10")
    for _ in range(2):
        call("budgets", "spend", "team", "tokens=7", "--key", "invoice 7")

    assert (
        json.loads(call("budgets", "show", "team", "--json"))["dimensions"]["tokens"]["used"] == 7
    )
    assert "no room left" in call("budgets", "spend", "team", "tokens=4", code=1)
    assert "does not count" in call("budgets", "spend", "team", "coins=4", code=1)
    assert "too little" in call("budgets", "spend", "team", "tokens=0.0000001", code=2)
    assert "choose another name" in call("budgets", "set", "team", "key=4", code=2)


def test_a_soft_limit_is_told_spending_is_given_back_and_a_budget_is_removed(call):
    call("budgets", "set", "team", "tokens=100", "--soft", "tokens=10")
    with Engine(call.database) as engine:
        done = engine.start(burner, 5, 6, budget="team")
        done.result(timeout=20)

    assert "over the soft limit: 12 of 10 tokens" in call("budgets", "spend", "team", "tokens=1")
    assert json.loads(call("budgets", "spend", "team", "tokens=1", "--json")) == {
        "counted": True,
        "soft_breaches": [{"budget": "team", "dimension": "tokens", "used": 13, "limit": 10}],
    }
    assert call("budgets", "refund", done.id) == "11 tokens given back to team\n"
    assert call("budgets", "refund", "last") == "nothing to give back\n"
    assert "--yes" in call("budgets", "remove", "team", code=2)
    assert call("budgets", "remove", "team", "--yes") == "budget team removed\n"
    assert "no such budget" in call("budgets", "remove", "team", "--yes", code=1)


def test_budgets_and_lanes_are_listed_in_pages(call):
    for name in ("a", "b b", "c"):
        call("budgets", "set", name, "tokens=1")
        call("lanes", "set", name, "--concurrency", "1")
    for things in ("budgets", "lanes"):
        first = call(things, "--limit", "2").splitlines()
        assert first[-1].startswith(f"next page: holdfast {things} --limit 2 --after 'b b'")
        rest = call(things, "--after", "b b", "--limit", "2").splitlines()
        assert [line.split()[0] for line in rest[1:]] == ["c"]
        page = json.loads(call(things, "--limit", "2", "--json"))
        assert (len(page["items"]), page["next"]) == (2, "b b")

    call("lanes", "set", "c", "--weight", "gold=3")
    call("lanes", "set", "c", "--weight", "tin=2", "--weight", "gold=none")
    assert json.loads(call("lanes", "--json"))["items"][-1]["weights"] == {"tin": 2}
    assert call("lanes", "remove", "c", "--yes") == "lane c removed\n"
    assert "no settings" in call("lanes", "remove", "c", "--yes", code=1)


PROGRAM = """
from holdfast import step, workflow
from holdfast.budgets import spend

@step
async def pay_by_hand(tokens: int) -> None:
    spend(tokens=tokens)

@workflow
async def paid_by_hand(tokens: int) -> str:
    await pay_by_hand(tokens)
    return "paid"
"""


def test_a_run_is_started_with_budgets_and_for_somebody(call, tmp_path):
    (tmp_path / "paying.py").write_text(PROGRAM)
    target = f"{tmp_path}/paying.py:paid_by_hand"
    call("budgets", "set", "team", "tokens=10")

    assert (
        call(
            "run", target, "7", "--budget", "team", "--budget", "tokens=8", "--share", "ann"
        ).strip()
        == '"paid"'
    )
    assert (
        json.loads(call("budgets", "show", "team", "--json"))["dimensions"]["tokens"]["used"] == 7
    )
    assert [budget["hard"] for budget in _limits(call, "tree:")] == [8]
    assert "no such budget" in call("run", target, "7", "--budget", "nobody", "--detach", code=1)
    assert "not an amount" in call("run", target, "7", "--budget", "tokens=", "--detach", code=2)


def _limits(call, prefix):
    data = json.loads(call("budgets", "--json"))["items"]
    return [one["dimensions"]["tokens"] for one in data if one["name"].startswith(prefix)]
