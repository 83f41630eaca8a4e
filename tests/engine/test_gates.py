"""Gates: asked by workflows, answered by people."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

import msgspec
import pytest

import holdfast
from holdfast import (
    AsyncEngine,
    Engine,
    compensate,
    first,
    gate,
    gather,
    sleep,
    start,
    step,
    sync,
    workflow,
)
from holdfast.core.status import FINAL
from holdfast.errors import (
    AlreadyDecided,
    BadOption,
    GateChanged,
    GateClosed,
    GateExpired,
    GateNotFound,
    GateRejected,
    GateWithdrawn,
    NotYourGate,
    QuorumImpossible,
    RunFailed,
    TokenExpired,
    TokenRefused,
    UnknownChoice,
    WrongAnswer,
)
from holdfast.gates import Answer
from holdfast.testing import internals
from tests.store.helpers import in_threads, wait_until

calls: list[str] = []


@pytest.fixture(autouse=True)
def _calm():
    calls.clear()


@step
async def note(what: str) -> str:
    calls.append(what)
    return what


@workflow
async def ask(options: dict | None = None, prompt: str = "Ship it?") -> dict:
    return told(await gate(prompt, **(options or {})))


@workflow
def ask_blocking(options: dict | None = None) -> dict:
    return told(sync.gate("Ship it?", **(options or {})))


def told(answer: Answer) -> dict:
    return {
        "answer": answer,
        "choice": answer.choice,
        "by": answer.by,
        "feedback": answer.feedback,
        "status": answer.status,
        "selections": answer.selections,
        "value": answer.value,
        "approved": bool(answer),
        "expired": answer.expired,
        "people": [[one.by, one.choice] for one in answer.decisions],
    }


def opened(engine: Engine, run, count: int = 1):
    """Wait until a run has opened gates, and return them, or the one."""
    found = wait_until(lambda: len(found := engine.gates.list(run=run.id)) == count and found)
    return found[0] if count == 1 else found


def waits(engine, run):
    wait_until(lambda: run.record.waits is not None)


# Deciding


@pytest.mark.parametrize("flow", [ask, ask_blocking])
def test_the_answer_is_the_choice_and_knows_who_made_it(engine, flow):
    run = engine.start(flow, {"options": ["yes", "no"], "timeout": "2d"})

    closed = engine.gates.decide(opened(engine, run), "yes", by="ann", feedback="looks good")

    assert (closed.status, closed.choice) == ("approved", "yes")
    found = run.result(timeout=10)
    assert (found["answer"], found["by"], found["feedback"], found["approved"]) == (
        "yes",
        "ann",
        "looks good",
        True,
    )
    assert engine.gates.list() == []
    assert engine.gates.list(status="closed") == [closed]


def test_a_gate_without_options_is_approved_or_rejected(engine):
    run = engine.start(ask)
    opened(engine, run)

    engine.gates.reject(run.id, feedback="too dear")  # a run with one open gate stands for it

    found = run.result(timeout=10)
    assert (found["answer"], found["by"], found["status"], found["approved"]) == (
        "reject",
        "anonymous",
        "rejected",
        False,
    )


def test_to_reject_what_has_no_option_for_it_fails_the_run_with_what_was_said(engine):
    run = engine.start(ask, {"options": ["small", "large"]})

    engine.gates.reject(opened(engine, run), by="ann", feedback="neither")

    with pytest.raises(RunFailed, match="neither"):
        run.result(timeout=10)


def test_some_of_the_options_can_be_selected(engine):
    run = engine.start(ask, {"options": {"a": "The first", "b": "The second", "c": "The third"}})
    found = opened(engine, run)

    with pytest.raises(UnknownChoice):
        engine.gates.approve(found, by="ann", selections=["a", "z"])
    engine.gates.approve(found, by="ann", selections=["c", "a"])

    assert run.result(timeout=10)["selections"] == ["a", "c"]
    assert [option.label for option in found.terms.options] == [
        "The first",
        "The second",
        "The third",
    ]


def test_two_people_must_agree(engine):
    run = engine.start(ask, {"assignees": ["ann", "bob", "eve"], "quorum": 2, "exclude": ["eve"]})
    found = opened(engine, run)

    assert engine.gates.approve(found, by="ann").status == "open"
    with pytest.raises(AlreadyDecided, match="approve"):
        engine.gates.reject(found, by="ann")
    with pytest.raises(NotYourGate, match="excluded"):
        engine.gates.approve(found, by="eve")
    with pytest.raises(NotYourGate, match="ann, bob"):
        engine.gates.approve(found, by="mallory")
    assert engine.gates.approve(found, by="bob").status == "approved"
    with pytest.raises(GateClosed, match="ann, bob"):
        engine.gates.reject(found, by="bob")

    assert run.result(timeout=10)["people"] == [["ann", "approve"], ["bob", "approve"]]


def test_a_role_may_decide(engine):
    run = engine.start(ask, {"roles": "finance"})
    found = opened(engine, run)

    with pytest.raises(NotYourGate):
        engine.gates.approve(found, by="ann", roles=["sales"])
    engine.gates.approve(found, by="ann", roles=["sales", "finance"])

    assert run.result(timeout=10)["by"] == "ann"


def test_the_same_question_twice_has_two_answers(engine):
    @workflow(name="asks_twice")
    async def twice() -> list:
        return [await gate("Again?"), await gate("Again?")]

    run = engine.start(twice)
    first_gate = opened(engine, run)
    engine.gates.approve(first_gate, by="ann")
    second = wait_until(
        lambda: [one for one in engine.gates.list(run=run.id) if one.id != first_gate.id]
    )[0]
    engine.gates.reject(second, by="ann")

    assert run.result(timeout=10) == ["approve", "reject"]
    with pytest.raises(GateClosed, match=r"rejected.*at=20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC"):
        engine.gates.approve(
            run.id, by="bob"
        )  # whoever names the run hears what became of its last gate


def test_gates_side_by_side_are_answered_in_any_order(engine):
    @workflow(name="asks_side_by_side")
    async def both() -> list:
        return list(await gather(gate("Left?"), gate("Right?")))

    run = engine.start(both)
    gates = {one.prompt: one for one in opened(engine, run, 2)}
    with pytest.raises(GateNotFound, match="several"):
        engine.gates.approve(run.id)
    engine.gates.approve(gates["Right?"], by="ann")
    engine.gates.reject(gates["Left?"], by="ann")

    assert run.result(timeout=10) == ["reject", "approve"]


def test_an_asynchronous_engine_asks_too(database):
    async def main():
        async with AsyncEngine(database) as engine:
            run = await engine.start(ask, {"assignees": ["ann"]})
            while not await engine.gates.list(mine="ann"):
                await run.history()
            (found,) = await engine.gates.list(mine="ann")
            await engine.gates.delegate(found, "bob", by="ann")
            await engine.gates.update(found, {"n": 1})
            token = await engine.gates.link(found, "approve", by="bob")
            await engine.gates.answer(token)
            return (await run.result(timeout=10))["by"], [
                entry.kind for entry in await engine.gates.entries(found)
            ]

    assert asyncio.run(main()) == ("bob", ["delegated", "updated", "decided"])


# What makes no sense


@pytest.mark.parametrize(
    "options",
    [
        {"options": "yes"},
        {"options": []},
        {"options": ["a", "a"]},
        {"options": [1]},
        {"options": [{"name": "a"}]},
        {"quorum": 0},
        {"quorum": True},
        {"timeout": "0s"},
        {"on_timeout": "maybe"},
        {"assignees": [""]},
        {"escalate": {"after": "1d"}},
        {"escalate": {"assignees": ["boss"]}},
        {"remind": "0s"},
        {"options": [{"value": "a", "means": "perhaps"}]},
    ],
)
@pytest.mark.sqlite_only
def test_what_cannot_be_asked_fails_the_run_by_name_and_opens_nothing(engine, options):
    run = engine.start(ask, options)

    with pytest.raises(RunFailed, match="BadOption"):
        run.result(timeout=10)
    assert engine.gates.list(status="any") == []


def test_more_people_than_there_are_cannot_agree(engine):
    run = engine.start(ask, {"assignees": ["ann"], "quorum": 2})

    with pytest.raises(RunFailed, match=QuorumImpossible.__name__):
        run.result(timeout=10)
    assert engine.gates.list(status="any") == []


def test_bad_answers_are_refused_and_change_nothing(engine):
    run = engine.start(ask, {"options": ["yes", "no"]})
    found = opened(engine, run)
    waits(engine, run)
    before = (engine.gates.get(found), run.record)

    for error, call in [
        (UnknownChoice, lambda: engine.gates.decide(found, "perhaps", by="ann")),
        (WrongAnswer, lambda: engine.gates.decide(found, "yes", by="ann", form={"a": 1})),
        (BadOption, lambda: engine.gates.decide(found, "yes", by="")),
        (BadOption, lambda: engine.gates.decide(found, 7, by="ann")),
        (GateNotFound, lambda: engine.gates.decide("none", "yes", by="ann")),
        (GateNotFound, lambda: engine.gates.decide(None, "yes", by="ann")),
        (BadOption, lambda: engine.gates.reassign(found)),
        (BadOption, lambda: engine.gates.list(status="nonsense")),
        (GateChanged, lambda: engine.gates.decide(found, "yes", by="ann", expect="0" * 64)),
    ]:
        with pytest.raises(error):
            call()

    assert (engine.gates.get(found), run.record) == before
    assert engine.gates.entries(found) == []


def test_gate_works_only_inside_a_workflow():
    with pytest.raises(holdfast.errors.NotInWorkflow):
        gate("Ship it?")
    with pytest.raises(holdfast.errors.NotInWorkflow):
        sync.gate("Ship it?")


# Forms


@dataclass
class Refund:
    amount: int
    reason: str = ""


class Strict(msgspec.Struct):
    amount: Annotated[int, msgspec.Meta(gt=0)]


@workflow
async def refund() -> list:
    answer = await gate("How much?", form=Refund)
    return [type(answer.value).__name__, answer.value.amount]


@workflow
async def strict() -> int:
    return (await gate("How much?", form=Strict)).value.amount


def test_a_form_comes_back_as_its_model(engine):
    run = engine.start(refund)
    found = opened(engine, run)

    assert found.terms.form["$defs"]["Refund"]["required"] == ["amount"]
    with pytest.raises(WrongAnswer, match=r"\$\.amount"):
        engine.gates.approve(found, by="ann", form={"amount": "much"})
    with pytest.raises(WrongAnswer, match="amount"):
        engine.gates.approve(found, by="ann")
    assert engine.gates.entries(found) == []
    engine.gates.approve(found, by="ann", form=Refund(7))

    assert run.result(timeout=10) == ["Refund", 7]


def test_a_struct_with_limits_is_a_form(engine):
    run = engine.start(strict)
    found = opened(engine, run)

    with pytest.raises(WrongAnswer, match=r"\$\.amount"):
        engine.gates.approve(found, by="ann", form={"amount": 0})
    engine.gates.approve(found, by="ann", form={"amount": 3})

    assert run.result(timeout=10) == 3


@pytest.mark.sqlite_only
def test_a_pydantic_model_is_a_form_and_what_its_schema_cannot_say_the_workflow_hears(engine):
    pydantic = pytest.importorskip("pydantic")

    class Even(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("odd")
            return value

    @workflow(name="asks_for_even")
    async def even() -> int:
        while True:
            try:
                return (await gate("An even number?", form=Even)).value.number
            except WrongAnswer:
                await note("asked again")

    run = engine.start(even)
    first_gate = opened(engine, run)
    with pytest.raises(WrongAnswer, match="number"):
        engine.gates.approve(first_gate, by="ann", form={"number": "two"})
    engine.gates.approve(first_gate, by="ann", form={"number": 3})
    second = wait_until(lambda: engine.gates.list(run=run.id))[0]
    engine.gates.approve(second, by="ann", form={"number": 4})

    assert run.result(timeout=10) == 4
    assert calls == ["asked again"]


# Time


def later(clock, found):
    """Wait until something is true, in time that goes on by itself: a worker may have looked just
    before the clock was moved."""

    def look():
        clock.advance("1ms")
        return found()

    return wait_until(look)


def ended(clock, run):
    later(clock, lambda: run.status in FINAL)
    return run.result(timeout=10)


@pytest.fixture
def timed(database, clock):
    with Engine(
        database, clock=clock, poll="1h", session_ttl="36500d", idle_timeout="0s"
    ) as engine:
        yield engine
        assert engine.database.check() == []


def test_a_deadline_is_counted_from_the_opening_and_survives_restarts(database, clock):
    options = {"poll": "1h", "session_ttl": "36500d", "idle_timeout": "0s", "clock": clock}
    with Engine(database, **options) as engine:
        run = engine.start(ask, {"timeout": "2h"})
        found = opened(engine, run)
        waits(engine, run)
    clock.advance("90m")
    with Engine(database, **options) as engine:
        assert engine.gates.get(found.id).deadline == found.opened_at + 7200 * 10**6
        clock.advance("31m")
        with pytest.raises(RunFailed, match=GateExpired.__name__):
            ended(clock, engine.run(run.id))
        with pytest.raises(GateClosed, match="expired"):
            engine.gates.approve(found, by="ann")


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"on_timeout": "continue"}, [None, "", False]),
        ({"on_timeout": "no", "options": ["yes", "no"]}, ["no", "no", False]),
    ],
)
def test_when_time_is_over_the_workflow_may_go_on(timed, clock, options, answer):
    run = timed.start(ask, {"timeout": "2d", **options})
    waits(timed, run)
    clock.advance("2d")

    found = ended(clock, run)
    assert [found["choice"], found["answer"], found["approved"]] == answer
    assert (found["expired"], found["by"]) == (True, None)


def test_people_are_reminded_and_it_is_escalated(timed, clock):
    run = timed.start(
        ask,
        {
            "assignees": ["ann"],
            "remind": ["1h", "5h"],
            "escalate": [{"after": "3h", "assignees": ["boss"], "roles": ["head"]}],
        },
    )
    waits(timed, run)
    assert timed.gates.list(overdue=True) == timed.gates.list(mine="boss") == []
    clock.advance("1h")
    found = later(clock, lambda: timed.gates.list(overdue=True))[0]
    assert (found.reminded, found.assignees) == (1, ("ann",))
    clock.advance("2h")
    found = later(clock, lambda: timed.gates.list(mine="boss"))[0]
    assert (found.escalated, found.assignees, found.roles) == (1, ("ann", "boss"), ("head",))
    waits(timed, run)
    clock.advance("10h")
    later(clock, lambda: timed.gates.get(found).reminded == 2)
    timed.gates.approve(found, by="boss")

    assert run.result(timeout=10)["by"] == "boss"
    kinds = [event.kind for event in run.history()]
    assert kinds == [
        "gate_opened",
        "gate_reminded",
        "gate_escalated",
        "gate_reminded",
        "gate_closed",
        "run_completed",
    ]
    assert [entry.kind for entry in timed.gates.entries(found)] == [
        "reminded",
        "escalated",
        "reminded",
        "decided",
    ]


def test_a_parked_run_costs_no_memory_and_wakes_for_a_decision(timed):
    run = timed.start(ask)
    wait_until(lambda: run.record.session_id is None and run.record.waits is not None)

    timed.gates.approve(run.id)

    assert run.result(timeout=10)["choice"] == "approve"


# Handing on


def test_a_decision_can_be_delegated_and_reassigned(engine):
    run = engine.start(ask, {"assignees": ["ann"]})
    found = opened(engine, run)

    engine.gates.delegate(found, "bob", by="ann", reason="holiday")
    assert (engine.gates.list(mine="ann"), [one.id for one in engine.gates.list(mine="bob")]) == (
        [],
        [found.id],
    )
    engine.gates.reassign(found, roles=["finance"], by="root")
    assert engine.gates.list(mine="bob") == []
    engine.gates.approve(found, by="carol", roles=["finance"])

    assert run.result(timeout=10)["by"] == "carol"
    log = [
        (entry.kind, entry.person, entry.names, entry.roles)
        for entry in engine.gates.entries(found)
    ]
    assert log[:2] == [("delegated", "ann", ("bob",), ()), ("reassigned", "root", (), ("finance",))]


def test_a_withdrawn_gate_is_told_to_its_workflow(engine):
    run = engine.start(ask)

    engine.gates.withdraw(opened(engine, run), by="root", reason="not needed")

    with pytest.raises(RunFailed, match=f"{GateWithdrawn.__name__}.*not needed"):
        run.result(timeout=10)


def test_a_decision_is_about_the_data_that_it_was_shown(engine):
    run = engine.start(ask, {"data": {"rows": 10}, "quorum": 2})
    found = opened(engine, run)
    engine.gates.approve(found, by="ann", expect=found.hash)

    changed = engine.gates.update(found, {"rows": 10_000}, by="root")

    with pytest.raises(GateChanged):
        engine.gates.approve(found, by="bob", expect=found.hash)
    engine.gates.approve(found, by="bob", expect=changed.hash)
    engine.gates.approve(found, by="ann", expect=changed.hash)
    assert run.result(timeout=10)["people"] == [["bob", "approve"], ["ann", "approve"]]


# Links


def test_a_link_answers_one_gate_in_one_way_once(engine):
    run = engine.start(ask, {"options": ["yes", "no"], "quorum": 2, "roles": ["finance"]})
    found = opened(engine, run)
    token = engine.gates.link(found, "yes", by="ann", roles=["finance"])

    assert token not in repr(token)
    assert engine.gates.answer(token, feedback="by mail").status == "open"
    with pytest.raises(AlreadyDecided):
        engine.gates.answer(token)
    engine.gates.approve(found, by="bob", roles=["finance"])
    with pytest.raises(GateClosed):
        engine.gates.answer(token)

    assert run.result(timeout=10)["feedback"] == "by mail"


def test_a_link_lapses_with_its_time_its_key_and_what_it_is_about(timed, clock):
    run = timed.start(ask, {"data": 1})
    waits(timed, run)
    tokens = [
        timed.gates.link(run.id, "approve", by="ann", expires=expires)
        for expires in ("1h", "1d", "9d")
    ]
    clock.advance("2h")

    with pytest.raises(TokenExpired):
        timed.gates.answer(tokens[0])
    timed.gates.update(run.id, 2)
    with pytest.raises(GateChanged):
        timed.gates.answer(tokens[1])
    fresh = timed.gates.link(run.id, "approve", by="ann")
    timed.keys.rotate(grace="1h")
    clock.advance("61m")
    for wrong in (fresh, tokens[2], "k.e.y", "", fresh[:-4] + "AAAA"):
        with pytest.raises(TokenRefused) as refused:
            timed.gates.answer(wrong)
        assert str(refused.value) == str(TokenRefused())
    assert timed.gates.get(run.id).status == "open"
    timed.gates.answer(timed.gates.link(run.id, "approve", by="ann"))
    assert run.result(timeout=10)["by"] == "ann"


def test_a_link_that_could_answer_nothing_is_not_made(engine):
    run = engine.start(ask, {"options": ["yes", "no"], "assignees": ["ann"]})
    found = opened(engine, run)

    for error, choice, by, expires in [
        (UnknownChoice, "maybe", "ann", "1d"),
        (NotYourGate, "yes", "bob", "1d"),
        (BadOption, "yes", "ann", "0s"),
    ]:
        with pytest.raises(error):
            engine.gates.link(found, choice, by=by, expires=expires)


def test_a_token_for_something_else_answers_nothing(engine):
    from holdfast.core import tokens

    run = engine.start(ask)
    found = opened(engine, run)
    engine.gates.link(found, "approve", by="ann")
    key = internals(engine).store.keys.all()[0]
    says = {
        "run": run.id,
        "gate": found.id,
        "choice": "approve",
        "by": "ann",
        "roles": [],
        "hash": "",
    }

    with pytest.raises(TokenRefused):
        engine.gates.answer(tokens.sign(key, "signal", says))
    with pytest.raises(TokenRefused):
        engine.gates.answer(tokens.sign(key, "gate", {**says, "gate": "gone"}))
    assert engine.gates.get(found).status == "open"


# Ends


def test_a_gate_that_lost_a_race_is_withdrawn(engine):
    @workflow(name="races_a_gate")
    async def race() -> str:
        return await first(gate("Quick?"), note("quicker"))

    run = engine.start(race)

    assert run.result(timeout=10) == "quicker"
    assert [one.status for one in engine.gates.list(run=run.id, status="any")] in (
        [],
        ["withdrawn"],
    )


@pytest.mark.parametrize("force", [False, True])
def test_a_cancelled_run_withdraws_its_gates(engine, force):
    run = engine.start(ask)
    found = opened(engine, run)
    waits(engine, run)
    run.cancel("not needed", force=force)

    wait_until(lambda: run.status == "cancelled")
    assert engine.gates.get(found.id).status == "withdrawn"
    with pytest.raises(GateClosed):
        engine.gates.approve(found, by="ann")
    assert "gate_withdrawn" in [event.kind for event in run.history()]


def test_a_child_that_waits_for_people_is_explained_and_goes_with_its_parent(engine):
    @workflow(name="parent_of_a_gate")
    async def parent() -> dict:
        handle = await start(ask, {"assignees": ["ann"]})
        return await handle.result()

    run = engine.start(parent)
    wait_until(lambda: engine.gates.list() and run.record.waits)
    (found,) = engine.gates.list()
    assert "ann to decide" in engine.why(run.id).reason
    run.cancel()
    wait_until(lambda: engine.gates.get(found.id).status == "withdrawn")


def test_a_replay_asks_again_only_what_had_no_answer(timed, clock):
    @workflow(name="asks_and_fails")
    async def asks() -> list:
        one = await gate("First?")
        two = await gate("Second?", timeout="1h")
        return [one.by, two.by]

    run = timed.start(asks)
    waits(timed, run)
    timed.gates.approve(run.id, by="ann")
    second = wait_until(
        lambda: [one for one in timed.gates.list(run=run.id) if one.prompt == "Second?"]
    )[0]
    waits(timed, run)
    clock.advance("1h")
    with pytest.raises(RunFailed):
        ended(clock, run)
    timed.replay(run.id)
    again = wait_until(lambda: timed.gates.list(run=run.id))[0]

    assert (again.prompt, again.id != second.id) == ("Second?", True)
    timed.gates.approve(again, by="bob")
    assert run.result(timeout=10) == ["ann", "bob"]


def test_a_replay_of_a_cancelled_run_opens_its_gate_anew(engine):
    run = engine.start(ask)
    found = opened(engine, run)
    waits(engine, run)
    run.cancel(force=True)
    engine.replay(run.id)

    again = opened(engine, run)
    assert again.id != found.id
    engine.gates.approve(again, by="ann")
    assert run.result(timeout=10)["by"] == "ann"


def test_a_replay_from_before_a_withdrawal_asks_anew(engine):
    @workflow(name="asks_and_gives_up")
    async def gives_up(patience: str) -> str:
        async def asks() -> str:
            return await gate("Quick?")

        async def waits_a_while() -> str:
            await sleep(patience)
            return await note("too late")

        return await first(asks(), waits_a_while())

    run = engine.start(gives_up, "10ms")
    assert run.result(timeout=10) == "too late"
    (lost,) = engine.gates.list(run=run.id, status="any")
    engine.replay(
        run.id,
        from_step=next(event.step for event in run.history() if "note" in (event.step or "")),
    )

    assert run.result(timeout=10) == "too late"
    statuses = [one.status for one in engine.gates.list(run=run.id, status="any")]
    assert (lost.status, set(statuses)) == ("withdrawn", {"withdrawn"})


def test_many_who_decide_at_once_are_counted_one_by_one(database):
    with Engine(database) as engine:
        run = engine.start(ask, {"quorum": 3})
        found = opened(engine, run)
        others = [Engine(database, workflows=[]) for _ in range(4)]
        told: list[str] = []

        def votes(place):
            for number in range(3):
                try:
                    told.append(others[place].gates.approve(found, by=f"{place} {number}").status)
                except GateClosed:
                    told.append("closed")

        in_threads(*[lambda place=place: votes(place) for place in range(4)])
        for other in others:
            other.close()

        assert sorted(told) == ["approved", *["closed"] * 9, "open", "open"]
        assert len(run.result(timeout=10)["people"]) == 3
        assert engine.database.check() == []


def test_a_fork_asks_for_itself_what_is_open_and_keeps_what_was_answered(engine):
    @workflow(name="asks_then_asks")
    async def asks() -> list:
        one = await gate("First?")
        await note("between")
        two = await gate("Second?")
        return [one.by, two.by]

    run = engine.start(asks)
    engine.gates.approve(opened(engine, run), by="ann")
    wait_until(lambda: any(one.prompt == "Second?" for one in engine.gates.list(run=run.id)))
    fork = engine.fork(run.id, from_step="gate#2")
    engine.gates.approve(opened(engine, fork), by="bob")

    assert fork.result(timeout=10) == ["ann", "bob"]
    assert run.status == "waiting"


def test_what_is_rejected_can_be_undone(engine):
    @workflow(name="undoes_what_is_rejected")
    async def undoing() -> None:
        compensate(note, "undone")
        if not await gate("Keep it?"):
            raise GateRejected(prompt="Keep it?")

    run = engine.start(undoing)
    engine.gates.reject(opened(engine, run), by="ann")

    with pytest.raises(RunFailed):
        run.result(timeout=10)
    assert calls == ["undone"]


def test_nothing_before_a_gate_runs_again(database):
    @workflow(name="steps_before_a_gate")
    async def steps() -> list:
        one = await note("before")
        answer = await gate("Go on?")
        two = await note("after")
        await sleep("1ms")
        return [one, answer, two]

    with Engine(database, workflows=[steps]) as engine:
        run = engine.start(steps)
        opened(engine, run)
    with Engine(database, workflows=[]) as engine:
        engine.gates.approve(run.id, by="ann")
    with Engine(database, workflows=[steps]) as engine:
        assert engine.run(run.id).result(timeout=10) == ["before", "approve", "after"]
    assert calls == ["before", "after"]


# Why


def test_why_names_who_may_decide_how_many_are_missing_the_time_left_and_the_command(engine):
    run = engine.start(
        ask,
        {
            "assignees": ["ann", "bob", "carol"],
            "quorum": 2,
            "timeout": "2d",
            "options": ["yes", "no"],
        },
    )
    found = opened(engine, run)
    engine.gates.decide(found, "yes", by="ann")
    waits(engine, run)

    why = engine.why(run.id)

    assert why.reason.startswith(
        "it waits for ann, bob, carol to decide: 'Ship it?'; 1 more of 2 must agree (so far ann:"
        " yes)"
    )
    assert "gives up at" in why.reason
    assert (why.blockers[0].until, why.remedy) == (
        found.deadline,
        f"holdfast gates decide {found.id} yes --by NAME",
    )


def test_an_inbox_with_pages(engine):
    runs = engine.start_many(ask, [{"assignees": ["ann"]}, {"roles": ["finance"]}, {}])
    wait_until(lambda: len(engine.gates.list()) == 3)
    everything = engine.gates.list()

    assert {one.run_id for one in everything} == {run.id for run in runs}
    assert engine.gates.list(limit=2) == everything[:2]
    assert engine.gates.list(after=everything[1].id) == everything[2:]
    assert {one.run_id for one in engine.gates.list(mine="ann", role="finance")} == {
        run.id for run in runs
    }
    assert [one.run_id for one in engine.gates.list(role="finance")] == [runs[1].id]
    assert engine.gates.list(workflow="ask", namespace="default") == everything
