"""The attempts at a run: why each was made, by which worker, and how it ended."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncEngine, Engine, workflow
from holdfast.errors import RunNotFound
from tests.engine.waiting import one_lease as one

POLICY = {"retries": 3, "delay": "0s"}


def told(run):
    return [
        (attempt.number, attempt.kind, attempt.worker, attempt.outcome)
        for attempt in run.attempts()
    ]


def test_attempts_tell_their_kinds_workers_and_outcomes(idle, holder):
    run = idle.start("render", 1, policy=POLICY)
    assert told(run) == []
    one(holder).fail("transient", "no disk")
    one(holder).fail("infrastructure", "no power")
    lease = one(holder)
    idle.tasks.revoke(run.id)
    one(holder)
    idle.workers.remove("render-1")
    lease = one(holder)

    assert told(run)[-1] == (5, "reclaim", "render-1", None)
    lease.complete(7)
    idle.replay(run.id)
    one(holder).complete(8)

    assert told(run) == [
        (1, "initial", "render-1", "transient"),
        (2, "retry", "render-1", "infrastructure"),
        (3, "reclaim", "render-1", "revoked"),
        (4, "reclaim", "render-1", "lost"),
        (5, "reclaim", "render-1", "completed"),
        (6, "replay", "render-1", "completed"),
    ]
    assert run.attempts()[0].error.message == "no disk"
    assert [attempt.number for attempt in idle.tasks.attempts(run.id)] == [1, 2, 3, 4, 5, 6]


def test_an_attempt_goes_on_after_a_delay_a_wait_and_its_children(idle, holder, clock):
    run = idle.start("render", 1)
    one(holder).delay("5s")
    clock.advance("6s")
    one(holder).suspend("go")
    idle.signal(run.id, "go")
    lease = one(holder)
    lease.start("page", 1, id="page")
    lease.wait_children()
    clock.advance("6s")
    (page,) = idle.tasks.claim(workflows=["page"])
    page.complete()
    one(holder).complete()

    (attempt,) = run.attempts()
    assert (attempt.kind, attempt.outcome) == ("initial", "completed")
    assert (attempt.ended_at - attempt.started_at).total_seconds() == 12


def test_each_attempt_has_its_own_start_and_end(idle, holder, clock):
    run = idle.start("render", 1, policy=POLICY)
    lease = one(holder)
    clock.advance("2s")
    lease.fail("transient", "no disk")
    clock.advance("3s")
    lease = one(holder)
    clock.advance("4s")
    holder.complete_all([(lease, 7)])

    first, second = run.attempts()
    assert (first.ended_at - first.started_at).total_seconds() == 2
    assert (second.started_at - first.ended_at).total_seconds() == 3
    assert (second.ended_at - second.started_at).total_seconds() == 4
    assert (second.worker, second.session) == ("render-1", holder.session_id)


def test_a_run_that_fails_with_its_attempt_has_one_attempt(idle, holder):
    run = idle.start("render", 1)
    one(holder).fail("permanent", "no ink")

    assert told(run) == [(1, "initial", "render-1", "permanent")]


def test_a_run_that_was_never_leased_has_no_attempt(idle, holder):
    cancelled = idle.start("render", 1)
    cancelled.cancel()
    overridden = idle.start("render", 3)
    idle.tasks.override(overridden.id, "done by hand", result=7)
    idle.budgets.set("team", {"tokens": 1}, on_breach="fail")
    idle.budgets.spend("team", {"tokens": 1})
    poor = idle.start("render", 2, budget="team")
    assert holder.claim() == []

    assert (told(cancelled), told(overridden), told(poor)) == ([], [], [])
    with pytest.raises(RunNotFound):
        idle.tasks.attempts("nothing")


@workflow(name="attempts.plain")
async def plain() -> int:
    return 7


def test_a_plain_run_has_attempts_too_and_writes_nothing_for_them(database):
    with Engine(database, workflows=[plain]) as engine:
        run = engine.start(plain)
        run.result()

        assert told(run) == [(1, "initial", None, "completed")]
        assert [(event.kind, event.data) for event in run.history()] == [("run_completed", None)]


def test_an_asynchronous_run_lists_its_attempts(database):
    async def main():
        async with AsyncEngine(database, work=False) as engine:
            run = await engine.start("render", 1)
            async with engine.tasks.worker("w", workflows=["render"]) as worker:
                (lease,) = await worker.claim()
                await lease.complete()
            return [attempt.worker for attempt in await run.attempts()]

    assert asyncio.run(main()) == ["w"]
