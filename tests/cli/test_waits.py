"""``holdfast waits, release`` and ``signal`` to a wait."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from holdfast import Engine, workflow
from holdfast.testing.clock import VirtualClock
from holdfast.waits import all_of, create_wait, wait_for
from tests.engine.waiting import wait_for as wait_for_status


@workflow(name="cli.asking")
async def asking(on_timeout: str = "fail") -> object:
    wait = await create_wait("callback")
    return (
        await wait_for(
            all_of(wait, "paid"),
            timeout="1s" if on_timeout == "escalate" else "2d",
            on_timeout=on_timeout,
        )
    ).how


@pytest.fixture
def parked(call):
    """Start a run that waits; then nobody works on it."""

    def parked(*args):
        call.start("shop.py:listener")
        now = VirtualClock(
            datetime.now(UTC)
        )  # it stands still: nothing is over before the test looks
        with Engine(call.json("db", "info")["database"], workflows=[asking], clock=now) as engine:
            run = engine.start(asking, *args)
            wait_for_status(engine, run, "waiting")
        return run.id

    return parked


def handed_out(call, run_id):
    return next(wait for wait in call.json("waits", "--run", run_id)["items"] if wait["id"])


def test_waits_are_listed_without_their_tokens(call, parked):
    run_id = parked()

    (created, waiting) = call.json("waits", "--run", run_id)["items"]
    assert (created["name"], created["state"], created["run_id"], len(created["fingerprint"])) == (
        "callback",
        "open",
        run_id,
        16,
    )
    assert (waiting["step"], waiting["id"], waiting["fingerprint"]) == ("wait", None, None)
    first = call.json("waits", "--run", run_id, "--limit", "1")
    assert f"--after {first['next']}" in call.text("waits", "--run", run_id, "--limit", "1")
    rest = call.json("waits", "--run", run_id, "--limit", "1", "--after", first["next"])
    assert (first["items"], rest["items"], rest["next"]) == ([created], [waiting], None)
    assert "not the cursor" in call.error("waits", "--after", "x")
    token = call.text("waits", "token", created["id"]).strip()
    assert call.json("waits", "token", created["id"]) == {"wait": created["id"], "token": token}
    everything = (
        call.text("waits")
        + call.text("waits", "--run", run_id)
        + call.text("show", run_id)
        + call.text("why", run_id)
    )
    assert token.split(".")[2] not in everything
    assert "all of (the wait 'callback', 'paid')" in call.text("show", run_id) + call.text("waits")


def test_a_signal_with_the_token_reaches_the_wait(call, parked):
    run_id = parked()
    wait = handed_out(call, run_id)["id"]
    token = call.text("waits", "token", wait).strip()

    done = call.json(
        "signal",
        "--wait",
        wait,
        "--token",
        token,
        "yes",
        '{"a": 1}',
        "--source",
        "shop",
        "--key",
        "k",
    )
    assert done == {"wait": wait, "signal": 1, "effect": "kept"}
    assert call.json("signal", "--wait", wait, "--token", token, "--key", "k") == done
    assert "holdfast signal" in call.text("why", run_id) and " paid" in call.text("why", run_id)
    assert call.json("signal", run_id, "paid", "--source", "bank")["sent"]
    assert call.json("show", run_id)["status"] == "pending"


def test_a_signal_with_a_wrong_token_is_refused_like_one_to_no_wait(call, parked):
    wait = handed_out(call, parked())["id"]

    told = {call.error("signal", "--wait", one, "--token", "k1.e30.AAAA") for one in (wait, "none")}

    assert len(told) == 1
    assert "token" in told.pop()


def test_an_operator_needs_no_token(call, parked):
    run_id = parked()
    wait = handed_out(call, run_id)["id"]

    assert call.json("signal", run_id, "yes", "--wait", wait)["sent"]
    assert "no such open wait" in call.error("signal", run_id, "yes", "--wait", "none")


@pytest.mark.parametrize(
    "words",
    [
        ["last"],
        [],
        ["last", "paid", "1", "2"],
        ["last", "paid", "{"],
        ["paid", "--token", "k1.a.b"],
    ],
    ids=" ".join,
)
def test_a_signal_that_cannot_be_understood_is_refused(call, parked, words):
    parked()

    call("signal", *words, code=2)


def test_a_person_lets_a_run_go(call, parked):
    run_id = parked()

    assert call.json("waits", "release", run_id, "--by", "ann", "--payload", "1") == {
        "run": run_id,
        "step": "wait",
    }
    assert call.json("show", run_id)["status"] == "pending"
    with Engine(call.json("db", "info")["database"], workflows=[asking]) as engine:
        assert engine.run(run_id).result(timeout=60) == "release"
    assert "released by an operator" in call.text("show", run_id)
    assert "has ended" in call.error("waits", "release", run_id, "--step", "wait")


def test_what_needs_a_person_is_listed(call, parked):
    run_id = parked("escalate")
    assert json.loads(call.text("waits", "--escalated", "--json"))["items"] == []
    with Engine(call.json("db", "info")["database"], workflows=[asking]) as engine:
        from tests.engine.waiting import wait_until

        wait_until(engine, lambda: engine.waits.list(escalated=True))

    assert [wait["run_id"] for wait in call.json("waits", "--escalated")["items"]] == [run_id]
    assert f"holdfast waits release {run_id}" in call.text("why", run_id)
    assert "needs an operator" in call.text("show", run_id)
