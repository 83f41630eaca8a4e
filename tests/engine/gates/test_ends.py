"""Gates of runs that are cancelled, replayed, forked or compensated."""

from __future__ import annotations

import pytest

from holdfast import Engine, compensate, first, gate, sleep, start, workflow
from holdfast.errors import GateClosed, GateRejected, RunFailed
from tests.engine.gates.workflows import ask, calls, ended, note, opened, waits
from tests.store.helpers import in_threads, wait_until


def test_a_gate_that_lost_a_race_is_withdrawn(engine):
    @workflow(name="races_a_gate")
    async def race() -> str:
        return await first(gate("Quick?"), note("quicker"))

    run = engine.start(race)

    assert run.result(timeout=60) == "quicker"
    assert [open_gate.status for open_gate in engine.gates.list(run=run.id, status="any")] in (
        [],
        ["withdrawn"],
    )


@pytest.mark.parametrize("force", [False, True])
def test_a_cancelled_run_withdraws_its_gates(engine, force):
    run = engine.start(ask)
    open_gate = opened(engine, run)
    waits(engine, run)
    run.cancel("not needed", force=force)

    wait_until(lambda: run.status == "cancelled")
    assert engine.gates.get(open_gate.id).status == "withdrawn"
    with pytest.raises(GateClosed):
        engine.gates.approve(open_gate, by="ann")
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
        first_answer = await gate("First?")
        two = await gate("Second?", timeout="1h")
        return [first_answer.by, two.by]

    run = timed.start(asks)
    waits(timed, run)
    timed.gates.approve(run.id, by="ann")
    second = wait_until(
        lambda: [
            open_gate for open_gate in timed.gates.list(run=run.id) if open_gate.prompt == "Second?"
        ]
    )[0]
    waits(timed, run)
    clock.advance("1h")
    with pytest.raises(RunFailed):
        ended(clock, run)
    timed.replay(run.id)
    again = wait_until(lambda: timed.gates.list(run=run.id))[0]

    assert (again.prompt, again.id != second.id) == ("Second?", True)
    timed.gates.approve(again, by="bob")
    assert run.result(timeout=60) == ["ann", "bob"]


def test_a_replay_of_a_cancelled_run_opens_its_gate_anew(engine):
    run = engine.start(ask)
    open_gate = opened(engine, run)
    waits(engine, run)
    run.cancel(force=True)
    engine.replay(run.id)

    again = opened(engine, run)
    assert again.id != open_gate.id
    engine.gates.approve(again, by="ann")
    assert run.result(timeout=60)["by"] == "ann"


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
    assert run.result(timeout=60) == "too late"
    (lost,) = engine.gates.list(run=run.id, status="any")
    engine.replay(
        run.id,
        from_step=next(event.step for event in run.history() if "note" in (event.step or "")),
    )

    assert run.result(timeout=60) == "too late"
    statuses = [open_gate.status for open_gate in engine.gates.list(run=run.id, status="any")]
    assert (lost.status, set(statuses)) == ("withdrawn", {"withdrawn"})


def test_many_who_decide_at_once_are_counted_one_by_one(database):
    with Engine(database) as engine:
        run = engine.start(ask, {"quorum": 3})
        open_gate = opened(engine, run)
        others = [Engine(database, workflows=[]) for _ in range(4)]
        statuses: list[str] = []

        def votes(place):
            for number in range(3):
                try:
                    statuses.append(
                        others[place].gates.approve(open_gate, by=f"{place} {number}").status
                    )
                except GateClosed:
                    statuses.append("closed")

        in_threads(*[lambda place=place: votes(place) for place in range(4)])
        for other in others:
            other.close()

        assert sorted(statuses) == ["approved", *["closed"] * 9, "open", "open"]
        assert len(run.result(timeout=60)["people"]) == 3
        assert engine.database.check() == []


def test_a_fork_asks_for_itself_what_is_open_and_keeps_what_was_answered(engine):
    @workflow(name="asks_then_asks")
    async def asks() -> list:
        first_answer = await gate("First?")
        await note("between")
        two = await gate("Second?")
        return [first_answer.by, two.by]

    run = engine.start(asks)
    engine.gates.approve(opened(engine, run), by="ann")
    wait_until(
        lambda: any(open_gate.prompt == "Second?" for open_gate in engine.gates.list(run=run.id))
    )
    fork = engine.fork(run.id, from_step="gate#2")
    engine.gates.approve(opened(engine, fork), by="bob")

    assert fork.result(timeout=60) == ["ann", "bob"]
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
        run.result(timeout=60)
    assert calls == ["undone"]


def test_nothing_before_a_gate_runs_again(database):
    @workflow(name="steps_before_a_gate")
    async def steps() -> list:
        noted = await note("before")
        answer = await gate("Go on?")
        two = await note("after")
        await sleep("1ms")
        return [noted, answer, two]

    with Engine(database, workflows=[steps]) as engine:
        run = engine.start(steps)
        opened(engine, run)
    with Engine(database, workflows=[]) as engine:
        engine.gates.approve(run.id, by="ann")
    with Engine(database, workflows=[steps]) as engine:
        assert engine.run(run.id).result(timeout=60) == ["before", "approve", "after"]
    assert calls == ["before", "after"]
