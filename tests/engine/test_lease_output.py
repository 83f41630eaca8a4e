"""What the holder of a lease shows while it works, and leases that are taken up from the dead."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from holdfast import AsyncEngine, Engine
from holdfast.errors import (
    BadOption,
    BadPatch,
    FrameTooBig,
    LeaseLost,
    NotReclaimable,
    RunFailed,
    RunFinished,
    RunNotFound,
)
from holdfast.service.tasks.lease_state import Emitted, RunEnded
from holdfast.testing import internals
from tests.engine.waiting import one_lease as one


@pytest.fixture
def holder(idle):
    with idle.tasks.worker("render-1", workflows=["render"], ttl="1d") as leases:
        yield leases


@pytest.fixture
def run(idle):
    return idle.start("render", 1, policy={"retries": 3, "delay": "0s"})


def test_a_holder_says_how_far_it_is(idle, holder, run):
    lease = one(holder)
    lease.progress(40, "half")
    lease.progress(message="more than half")
    progress = idle.streams.progress(run.id)

    assert (progress.percent, progress.message) == (40.0, "more than half")
    lease.complete()
    with pytest.raises(LeaseLost):
        lease.progress(50)


def test_a_holder_appends_frames_and_others_read_them(idle, holder, run):
    lease = one(holder)
    assert lease.emit("a", "b", name="token") == Emitted(2, 2)
    assert lease.emit("line\n", kind="stdout") == Emitted(3, 3)
    assert lease.emit(b"\x00\x01", kind="blob") == Emitted(4, 4)
    lease.complete()

    frames = idle.streams.read(run.id)
    assert [(frame.seq, frame.kind, frame.value, frame.name) for frame in frames] == [
        (1, "event", "a", "token"),
        (2, "event", "b", "token"),
        (3, "stdout", "line\n", None),
        (4, "blob", b"\x00\x01", None),
    ]
    (stream,) = idle.streams.list(run.id)
    assert (stream.attempt, stream.generation, stream.reason) == (1, 1, "completed")
    assert [frame.value for frame in idle.streams.tail(run.id)][:2] == ["a", "b"]


def test_each_attempt_has_a_stream_and_supersedes_the_one_before(idle, holder, run):
    first = one(holder)
    first.emit("one")
    first.fail("transient", "no disk")
    second = one(holder)
    second.emit("two")
    idle.tasks.revoke(run.id)
    third = one(holder)
    third.emit("three")
    third.suspend("go")

    assert [
        (stream.attempt, stream.reason, stream.supersedes) for stream in idle.streams.list(run.id)
    ] == [
        (1, "retried", None),
        (2, "taken back", 1),
        (2, None, 2),
    ]
    for late in (first, second, third):
        with pytest.raises(LeaseLost):
            late.emit("late")
        with pytest.raises(LeaseLost):
            late.progress(1)
    assert [frame.value for frame in idle.streams.read(run.id)] == ["one", "two", "three"]


def test_a_summary_is_patched_by_several_with_the_same_proof(idle, holder, run, database, clock):
    lease = one(holder)
    helper = Engine(database, clock=clock)
    helping = helper.tasks.lease(lease.proof)
    lease.emit({"done": 0, "files": {"a": "open", "b": "open"}}, mode="summary")
    helping.emit({"done": 1, "files": {"a": None}}, mode="summary")
    lease.emit({"done": 2}, mode="summary")
    lease.complete()  # it closes what its helper may have opened
    helper.close()

    assert idle.streams.summary(run.id) == {"done": 2, "files": {"b": "open"}}
    assert [(stream.version, stream.reason) for stream in idle.streams.list(run.id)] == [
        (3, "completed")
    ]


def test_what_only_a_helper_put_out_is_closed_too(idle, holder, run, database, clock):
    lease = one(holder)
    helper = Engine(database, clock=clock)
    helper.tasks.lease(lease.proof).emit("x")
    helper.close()
    lease.fail("permanent", "no")

    assert [stream.reason for stream in idle.streams.list(run.id)] == ["failed"]


def test_eight_threads_patch_one_summary_and_no_patch_is_lost(idle, holder, run):
    proof = one(holder).proof
    versions: list[int] = []
    failures: list[Exception] = []

    def patch(name: str) -> None:
        lease = idle.tasks.lease(proof)
        try:
            for number in range(5):
                versions.append(lease.emit({name: number}, mode="summary").version)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=patch, args=(f"t{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert sorted(versions) == list(range(1, 41))
    assert idle.streams.summary(run.id) == {f"t{number}": 4 for number in range(8)}
    assert idle.streams.list(run.id)[0].version == 40


@pytest.mark.parametrize("leave", ["suspend", "delay"])
def test_the_stream_and_the_summary_go_on_after_suspend_or_delay(idle, holder, run, clock, leave):
    lease = one(holder)
    lease.emit("part 1")
    lease.emit({"n": 1}, mode="summary")
    if leave == "suspend":
        lease.suspend("go")
        idle.signal(run.id, "go")
    else:
        lease.delay("1h")
        clock.advance("2h")
    assert [stream.closed_at for stream in idle.streams.list(run.id)] == [None]
    again = one(holder)
    again.renew()

    assert again.emit("part 2", place=2) == Emitted(3, 3)
    assert again.emit({"m": 2}, mode="summary") == Emitted(4, 4, 2)
    again.complete()
    frames = idle.streams.read(run.id)
    assert [(frame.value, frame.stream, frame.superseded_by) for frame in frames] == [
        ("part 1", 1, None),
        ({"n": 1}, 1, None),
        ("part 2", 1, None),
        ({"m": 2}, 1, None),
    ]
    assert idle.streams.summary(run.id) == {"n": 1, "m": 2}
    assert [stream.reason for stream in idle.streams.list(run.id)] == ["completed"]
    assert idle.database.check() == []


def test_a_holder_that_dies_after_a_suspension_leaves_its_stream_to_no_other(
    idle, holder, run, clock
):
    lease = one(holder)
    lease.emit("part 1")
    lease.suspend("go")
    idle.signal(run.id, "go")
    one(idle.tasks.worker("dead", workflows=["render"], ttl="10s")).emit("part 2")
    clock.advance("11s")
    one(holder).emit("again")

    assert [(stream.frames, stream.reason) for stream in idle.streams.list(run.id)] == [
        (2, "taken over"),
        (1, None),
    ]
    assert idle.database.check() == []


def test_the_output_of_one_attempt_is_read_apart(idle, holder, run):
    first = one(holder)
    first.emit("one")
    first.emit({"n": 1}, mode="summary")
    first.fail("transient", "no disk")
    second = one(holder)
    second.emit("two")
    second.emit({"m": 2}, mode="summary")
    second.complete()

    assert [frame.value for frame in idle.streams.read(run.id, attempt=1)] == ["one", {"n": 1}]
    assert [frame.value for frame in idle.streams.read(run.id, attempt=2, limit=1)] == ["two"]
    assert [frame.value for frame in idle.streams.tail(run.id, attempt=2)] == ["two", {"m": 2}]
    assert idle.streams.read(run.id, attempt=3) == []
    assert [idle.streams.summary(run.id, attempt=number) for number in (1, 2, 3, None)] == [
        {"n": 1},
        {"m": 2},
        None,
        {"m": 2},
    ]
    for wrong in (0, "1", True):
        with pytest.raises(BadOption):
            idle.streams.read(run.id, attempt=wrong)


def test_a_blob_of_the_largest_size_is_taken_as_it_is(idle, holder, run):
    lease = one(holder)
    lease.emit(bytes(65_536), kind="blob")
    with pytest.raises(FrameTooBig):
        lease.emit(bytes(65_537), kind="blob")

    assert [len(frame.value) for frame in idle.streams.read(run.id)] == [65_536]


def test_frames_with_a_place_are_appended_once(idle, holder, run):
    lease = one(holder)
    first = lease.emit("a", "b", place=0)
    then = lease.emit("c", place=2)

    assert (lease.emit("a", "b", place=0), lease.emit("c", place=2)) == (first, then)
    assert (first, then) == (Emitted(2, 2), Emitted(3, 3))
    with pytest.raises(BadOption, match="3 frames so far"):
        lease.emit("e", place=4)
    assert [frame.value for frame in idle.streams.read(run.id)] == ["a", "b", "c"]


def test_best_effort_keeps_the_last_ones(idle, holder, run, clock):
    lease = one(holder)
    for number in range(3):
        lease.emit(*range(number * 100, number * 100 + 100), mode="best_effort")
        clock.advance("10s")

    assert idle.streams.read(run.id)[-1].value == 299
    assert 64 <= len(idle.streams.read(run.id)) < 300
    lease.emit(*range(5), keep=3)
    assert [frame.value for frame in idle.streams.read(run.id, best_effort=False)] == [2, 3, 4]


def test_what_cannot_be_shown_is_refused_and_nothing_is_written(idle, holder, run):
    lease = one(holder)
    for wrong, call in (
        (BadOption, lambda: lease.progress()),
        (BadOption, lambda: lease.progress(101)),
        (BadOption, lambda: lease.progress(5, "x" * 1001)),
        (BadOption, lambda: lease.emit()),
        (BadOption, lambda: lease.emit(1, kind="sound")),
        (BadOption, lambda: lease.emit(1, mode="loud")),
        (BadOption, lambda: lease.emit(1, kind="stdout")),
        (BadOption, lambda: lease.emit("x", kind="blob")),
        (BadOption, lambda: lease.emit(1, keep=0)),
        (BadOption, lambda: lease.emit(1, place=-1)),
        (BadPatch, lambda: lease.emit(1, mode="summary")),
        (FrameTooBig, lambda: lease.emit("x" * 70_000)),
    ):
        with pytest.raises(wrong):
            call()
    assert (idle.streams.read(run.id), idle.streams.progress(run.id)) == ([], None)


def test_nothing_of_another_namespace_can_be_shown_to(database, idle, holder, run):
    other = Engine(database, namespace="other", clock=internals(idle).clock)
    proof = one(holder).proof
    with pytest.raises(LeaseLost):
        other.tasks.lease(proof)
    with other.tasks.worker(workflows=["render"]) as theirs, pytest.raises(RunNotFound):
        theirs.reclaim(run.id)
    other.close()


# Reclaiming


def test_the_run_of_a_dead_holder_is_reclaimed_at_once(idle, holder, run, clock):
    idle.start("render", 2, priority=9)
    dead = idle.tasks.worker("dead", workflows=["render"], ttl="10s")
    lease = dead.claim(2)[1]
    assert lease.run.id == run.id
    with pytest.raises(NotReclaimable, match="another holder has the lease"):
        holder.reclaim(run.id)
    clock.advance("11s")
    again = holder.reclaim(run.id)

    assert (again.run.id, again.attempt, again.run.generation) == (
        run.id,
        1,
        lease.run.generation + 2,
    )
    with pytest.raises(LeaseLost):
        lease.complete()
    assert again.complete() == RunEnded("completed")
    with pytest.raises(RunFinished):
        holder.reclaim(run.id)


def test_a_run_that_is_lost_more_often_than_agreed_fails(idle, holder, clock):
    run = idle.start("render", 1, policy={"reclaims": 1})
    for _ in range(2):
        one(idle.tasks.worker("dead", workflows=["render"], ttl="10s"))
        clock.advance("11s")

    assert holder.reclaim(run.id) == RunEnded("failed")
    with pytest.raises(RunFailed, match="lost 2 times"):
        run.result()


def test_the_limit_holds_for_claims_too(idle, holder, clock):
    run = idle.start("render", 1, policy={"reclaims": 0})
    one(idle.tasks.worker("dead", workflows=["render"], ttl="10s"))
    clock.advance("11s")

    assert holder.claim() == []
    assert run.status == "failed"


def test_what_cannot_be_reclaimed_is_refused_by_name(idle, holder, run):
    able = idle.start("render", 2, capabilities=["cuda"])
    with pytest.raises(NotReclaimable, match="capabilities"):
        holder.reclaim(able.id)
    lease = holder.reclaim(run.id)
    lease.suspend("go")
    with pytest.raises(NotReclaimable, match="waiting"):
        holder.reclaim(run.id)
    with pytest.raises(RunNotFound):
        holder.reclaim("nobody")


def test_a_task_is_replayed_as_often_as_was_agreed(idle, holder):
    run = idle.start("render", 1, policy={"retries": 1, "delay": "0s", "replays": 2})
    for number in range(3):
        lease = one(holder)
        lease.fail("transient", "no disk")
        again = one(holder)
        assert (lease.attempt, again.attempt) == (1, 2)
        assert again.complete(number) == RunEnded("completed")
        assert run.result() == number
        if number < 2:
            assert idle.replay(run.id) == "pending"
    with pytest.raises(NotReclaimable, match="2 times"):
        idle.replay(run.id)
    assert run.status == "completed"


# Many at once


def test_several_are_completed_in_one_call_and_the_refused_are_named(idle, holder):
    runs = [idle.start("render", number) for number in range(3)]
    leases = holder.claim(3)
    idle.tasks.revoke(runs[1].id)
    answers = holder.complete_all([(lease, number) for number, lease in enumerate(leases)])

    assert [type(answer) for answer in answers] == [RunEnded, LeaseLost, RunEnded]
    assert [runs[place].result() for place in (0, 2)] == [0, 2]
    again = holder.complete_all([(leases[0], 0)])
    assert again == [RunEnded("completed")]


def test_work_that_another_process_leaves_is_found(database):
    mine, theirs = Engine(database), Engine(database)
    found: list[Any] = []
    with mine.tasks.worker(workflows=["render"]) as leases:
        threads = [
            threading.Thread(target=lambda: found.extend(leases.claim(2, wait="30s")))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        runs = [run for number in range(3) for run in theirs.start_many("render", [number, number])]
        for thread in threads:
            thread.join()
        while len(found) < len(runs):
            found.extend(leases.claim(6, wait="30s"))
    assert Counter(lease.run.id for lease in found) == Counter(run.id for run in runs)
    mine.close()
    theirs.close()


def test_every_task_is_found_by_someone_who_is_able(database):
    engine = Engine(database)
    words = [f"kind{number}" for number in range(4)]
    runs = [
        run for word in words for run in engine.start_many("render", range(5), capabilities=[word])
    ]
    done: Counter[str] = Counter()

    def work(offer: set[str]) -> None:
        with engine.tasks.worker(workflows=["render"], capabilities=sorted(offer)) as leases:
            while found := leases.claim(2):
                for lease in found:
                    assert set(lease.run.capabilities) <= offer
                    done[lease.run.id] += 1
                leases.complete_all([(lease, None) for lease in found])

    threads = [
        threading.Thread(target=work, args=({words[number % 4], words[(number + 1) % 4]},))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == Counter(run.id for run in runs)
    assert engine.database.check() == []
    engine.close()


def test_the_same_for_asyncio(database):
    async def main() -> None:
        engine = AsyncEngine(database)
        runs = await engine.start_many("render", range(4))
        async with engine.tasks.worker(workflows=["render"], capabilities=["x"]) as leases:
            lease = await leases.reclaim(runs[0].id)
            helping = await engine.tasks.lease(lease.proof)
            await helping.renew()
            await helping.progress(3, "on my way")
            assert await lease.emit("a", "b") == Emitted(2, 2)
            assert await lease.emit({"x": 1}, mode="summary") == Emitted(3, 3, 1)
            others = await leases.claim(3)
            await engine.tasks.revoke(runs[1].id)
            answers = await leases.complete_all([(one, 1) for one in [lease, *others]])
            assert sorted(type(answer).__name__ for answer in answers) == [
                "LeaseLost",
                "RunEnded",
                "RunEnded",
                "RunEnded",
            ]
        assert (await engine.streams.progress(runs[0].id)).percent == 3.0
        assert [frame.value for frame in await engine.streams.read(runs[0].id)] == [
            "a",
            "b",
            {"x": 1},
        ]
        await engine.close()

    asyncio.run(main())
