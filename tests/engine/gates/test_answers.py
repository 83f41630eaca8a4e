"""Gates that people answer: choices, quorums, roles, several gates at once."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncEngine, gate, gather, sync, workflow
from holdfast.errors import (
    AlreadyDecided,
    GateClosed,
    GateNotFound,
    NotYourGate,
    RunFailed,
    UnknownChoice,
)
from tests.engine.gates.workflows import answer_fields, ask, opened
from tests.store.helpers import wait_until


@workflow
def ask_blocking(options: dict | None = None) -> dict:
    return answer_fields(sync.gate("Ship it?", **(options or {})))


@pytest.mark.parametrize("flow", [ask, ask_blocking])
def test_the_answer_is_the_choice_and_knows_who_made_it(engine, flow):
    run = engine.start(flow, {"options": ["yes", "no"], "timeout": "2d"})

    closed = engine.gates.decide(opened(engine, run), "yes", by="ann", feedback="looks good")

    assert (closed.status, closed.choice) == ("approved", "yes")
    result = run.result(timeout=60)
    assert (result["answer"], result["by"], result["feedback"], result["approved"]) == (
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

    result = run.result(timeout=60)
    assert (result["answer"], result["by"], result["status"], result["approved"]) == (
        "reject",
        "anonymous",
        "rejected",
        False,
    )


def test_to_reject_what_has_no_option_for_it_fails_the_run_with_what_was_said(engine):
    run = engine.start(ask, {"options": ["small", "large"]})

    engine.gates.reject(opened(engine, run), by="ann", feedback="neither")

    with pytest.raises(RunFailed, match="neither"):
        run.result(timeout=60)


def test_some_of_the_options_can_be_selected(engine):
    run = engine.start(ask, {"options": {"a": "The first", "b": "The second", "c": "The third"}})
    open_gate = opened(engine, run)

    with pytest.raises(UnknownChoice):
        engine.gates.approve(open_gate, by="ann", selections=["a", "z"])
    engine.gates.approve(open_gate, by="ann", selections=["c", "a"])

    assert run.result(timeout=60)["selections"] == ["a", "c"]
    assert [option.label for option in open_gate.options] == [
        "The first",
        "The second",
        "The third",
    ]


def test_two_people_must_agree(engine):
    run = engine.start(ask, {"assignees": ["ann", "bob", "eve"], "quorum": 2, "exclude": ["eve"]})
    open_gate = opened(engine, run)

    assert engine.gates.approve(open_gate, by="ann").status == "open"
    with pytest.raises(AlreadyDecided, match="approve"):
        engine.gates.reject(open_gate, by="ann")
    with pytest.raises(NotYourGate, match="excluded"):
        engine.gates.approve(open_gate, by="eve")
    with pytest.raises(NotYourGate, match="ann, bob"):
        engine.gates.approve(open_gate, by="mallory")
    assert engine.gates.approve(open_gate, by="bob").status == "approved"
    with pytest.raises(GateClosed, match="ann, bob"):
        engine.gates.reject(open_gate, by="bob")

    assert run.result(timeout=60)["people"] == [["ann", "approve"], ["bob", "approve"]]


def test_a_role_may_decide(engine):
    run = engine.start(ask, {"roles": "finance"})
    open_gate = opened(engine, run)

    with pytest.raises(NotYourGate):
        engine.gates.approve(open_gate, by="ann", roles=["sales"])
    engine.gates.approve(open_gate, by="ann", roles=["sales", "finance"])

    assert run.result(timeout=60)["by"] == "ann"


def test_the_same_question_twice_has_two_answers(engine):
    @workflow(name="asks_twice")
    async def twice() -> list:
        return [await gate("Again?"), await gate("Again?")]

    run = engine.start(twice)
    first_gate = opened(engine, run)
    engine.gates.approve(first_gate, by="ann")
    second = wait_until(
        lambda: [
            open_gate
            for open_gate in engine.gates.list(run=run.id)
            if open_gate.id != first_gate.id
        ]
    )[0]
    engine.gates.reject(second, by="ann")

    assert run.result(timeout=60) == ["approve", "reject"]
    with pytest.raises(GateClosed, match=r"rejected.*at=20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC"):
        engine.gates.approve(
            run.id, by="bob"
        )  # whoever names the run hears what became of its last gate


def test_gates_side_by_side_are_answered_in_any_order(engine):
    @workflow(name="asks_side_by_side")
    async def both() -> list:
        return list(await gather(gate("Left?"), gate("Right?")))

    run = engine.start(both)
    gates = {open_gate.prompt: open_gate for open_gate in opened(engine, run, 2)}
    with pytest.raises(GateNotFound, match="several"):
        engine.gates.approve(run.id)
    engine.gates.approve(gates["Right?"], by="ann")
    engine.gates.reject(gates["Left?"], by="ann")

    assert run.result(timeout=60) == ["reject", "approve"]


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
            return (await run.result(timeout=60))["by"], [
                entry.kind for entry in await engine.gates.entries(found)
            ]

    assert asyncio.run(main()) == ("bob", ["delegated", "updated", "decided"])
