"""Leases and answers that are refused."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AsyncEngine
from holdfast.errors import (
    BadCondition,
    BadDuration,
    BadLease,
    BadOption,
    BadWait,
    LeaseLost,
    NotEncodable,
    RunNotFound,
)
from holdfast.service.tasks.lease_state import RunEnded
from tests.engine.waiting import one_lease as one


@pytest.mark.parametrize("done", [None, 7, [7], [(7, 1)], ["ab"]])
def test_what_is_no_lease_with_its_result_is_refused(idle, holder, done):
    with pytest.raises(BadOption, match="pairs"):
        holder.complete_all(done)


def test_an_asynchronous_lease_is_refused_as_any_other_is(database):
    async def main() -> None:
        engine = AsyncEngine(database)
        for proof in ("", "abc", "abc.1", "abc..s", ".1.s", "abc.x.s", 7):
            with pytest.raises(BadLease):
                await engine.tasks.lease(proof)
        with pytest.raises(LeaseLost):
            await engine.tasks.lease("abc.1.s")
        run = await engine.start("render", 1, policy={"retries": 1, "delay": "0s"})
        async with engine.tasks.worker(workflows=["render"]) as leases:
            (first,) = await leases.claim()
            await first.fail("transient", "x")
            (second,) = await leases.claim(wait="1m")
            for stale in (first, await engine.tasks.lease(first.proof)):
                for write in (
                    stale.complete(1),
                    stale.fail("permanent", "x"),
                    stale.delay("1h"),
                    stale.suspend("go"),
                    stale.cancel(),
                    stale.create_wait("ok"),
                    stale.progress(1),
                    stale.emit("a"),
                ):
                    with pytest.raises(LeaseLost):
                        await write
            assert await second.complete(2) == RunEnded("completed")
            assert await second.complete(2) == RunEnded("completed")
            with pytest.raises(LeaseLost):
                await second.complete(3)
        assert await engine.database.check() == []
        assert await (await engine.run(run.id)).result() == 2
        await engine.close()

    asyncio.run(main())


def test_bad_input_is_refused_and_nothing_is_written(idle, holder):
    for call in (
        lambda: idle.start("render", 1, policy={"retry": 3}),
        lambda: idle.start("render", 1, policy={"retries": -1}),
        lambda: idle.start("render", 1, policy={"timeout": "0s"}),
        lambda: idle.start("render", 1, policy={"reclaims": 1.5}),
        lambda: idle.start("render", 1, policy=3),
        lambda: idle.tasks.worker(workflows=["render"], ttl="0s"),
        lambda: idle.start(" "),
        lambda: idle.start("a\0b"),
        lambda: idle.start("render", id="a\0b"),
        lambda: idle.start("render", capabilities=7),
        lambda: idle.tasks.worker(),
    ):
        with pytest.raises(BadOption):
            call()
    assert list(idle.runs()) == []
    run = idle.start("render", 1)
    lease = one(holder)
    for wrong, call in (
        (BadOption, lambda: lease.fail("sad", "x")),
        (BadOption, lambda: lease.fail("transient", None)),
        (BadOption, lambda: lease.fail("transient", "x", [1])),
        (NotEncodable, lambda: lease.fail("transient", "x", {"a": object()})),
        (NotEncodable, lambda: lease.fail("transient", "\ud800")),
        (BadOption, lambda: lease.create_wait(None)),
        (BadOption, lambda: lease.emit(1, kind=["x"])),
        (BadOption, lambda: lease.emit(1, name=7)),
        (BadOption, lambda: lease.progress(None, "a\0b")),
        (BadOption, lambda: idle.tasks.lease(lease.proof, ttl="0s").renew()),
        (BadCondition, lambda: lease.suspend(" ")),
        (RunNotFound, lambda: idle.tasks.revoke(7)),
        (BadOption, lambda: idle.tasks.revoke(run.id, "")),
        (BadOption, lambda: idle.tasks.override(run.id, 7)),
        (BadOption, lambda: idle.signal(run.id, " ")),
        (BadOption, lambda: lease.suspend(reason=7)),
        (BadOption, lambda: lease.suspend(by="a\nb")),
        (BadWait, lambda: lease.suspend("a", resume_delay="400d")),
        (BadDuration, lambda: lease.suspend("a", resume_delay="soon")),
        (BadCondition, lambda: lease.suspend("")),
        (BadDuration, lambda: lease.suspend("a", timeout="soon")),
        (BadDuration, lambda: lease.delay("soon")),
        (BadOption, lambda: idle.tasks.prioritise(run.id, 5000)),
        (BadOption, lambda: idle.tasks.override(run.id, "")),
    ):
        with pytest.raises(wrong):
            call()
    assert idle.run(run.id).history() == []
    assert lease.complete() == RunEnded("completed")
