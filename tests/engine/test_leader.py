"""What one worker does for all, and what a worker does that is not sure whether it is one still."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack, closing
from itertools import pairwise

import pytest

import holdfast
from holdfast import Engine, step, wait_signal, workflow
from holdfast.connect.open_store import open_store
from holdfast.errors import StoreBusy, StoreUnavailable
from holdfast.store.runs.operations import Claim, EndSession, StartRuns
from holdfast.testing import internals
from tests.store.helpers import wait_until

called = []


@step(name="duties.note")
async def note(n: int) -> int:
    called.append(holdfast.info().generation)
    return n


@workflow(name="duties.noting")
async def noting(n: int) -> int:
    return await note(n) + await note(n)


@step(name="duties.note_plainly")
def note_plainly(n: int) -> int:
    called.append(holdfast.info().generation)
    return n


@workflow(name="duties.noting_plainly")
def noting_plainly(n: int) -> int:
    return note_plainly(n) + note_plainly(n)


@workflow(name="duties.asking")
async def asking() -> object:
    await note(1)
    return await wait_signal("go")


@pytest.fixture(autouse=True)
def fresh():
    called.clear()


class OddQueries:
    """The queries of a feature, some of which fail where a test says so."""

    def __init__(self, odd, feature):
        self._odd, self._feature = odd, feature

    def __getattr__(self, name):
        trouble = self._odd.before.get(f"{self._feature}.{name}")
        if trouble:
            raise trouble.pop()
        return getattr(getattr(self._odd.store, self._feature), name)


class OddSessions(OddQueries):
    """The queries about sessions; those for all sessions are counted."""

    def all(self, limit=-1):
        self._odd.looks += limit < 0
        return self._odd.store.sessions.all(limit)


class Odd:
    """A store that does something of its own where a test says so, and passes everything else
    on."""

    def __init__(self, database):
        self.store = open_store(database)
        self.looks, self.after, self.before = 0, [], {}
        self.runs = OddQueries(self, "runs")
        self.sessions = OddSessions(self, "sessions")
        self.signals = OddQueries(self, "signals")
        self.lanes = OddQueries(self, "lanes")

    def __getattr__(self, name):
        return getattr(self.store, name)

    def apply(self, batch):
        answers = self.store.apply(batch)
        for hook in list(self.after):
            hook(batch, answers)
        return answers


def open_engine(database, **options):
    engine = Engine(database, store=Odd(database), workflows=[noting, asking], **options)
    return engine, internals(engine).store


def die(engine):
    """End as a killed process does: nothing is said to anybody, and the system frees the lock."""
    worker = internals(engine).worker

    async def vanish():
        for job in worker._jobs:
            job.cancel()
        worker.store.liveness.release(worker.session.slot)

    import asyncio

    asyncio.run_coroutine_threadsafe(vanish(), worker.loop).result()


def leading(engines):
    return [internals(engine).worker.leader.is_leader for engine in engines]


def test_the_oldest_looks_after_all_and_the_others_do_not(database):
    with ExitStack() as stack:
        opened = [open_engine(database, session_ttl="1h") for _ in range(4)]
        engines = [stack.enter_context(engine) for engine, _ in opened]
        stores = [store for _, store in opened]
        assert leading(engines) == [True, False, False, False]
        before = [store.looks for store in stores]
        wait_until(lambda: stores[0].looks >= before[0] + 5)

        assert [store.looks - was for store, was in zip(stores, before, strict=True)][1:] == [
            0,
            0,
            0,
        ]


def test_a_dead_leader_is_replaced_and_its_runs_go_on(database):
    with ExitStack() as stack:
        engines = [stack.enter_context(open_engine(database)[0]) for _ in range(3)]
        run = engines[0].start(asking)
        wait_until(lambda: run.status == "waiting")
        for dead, next_one in pairwise(engines):
            die(dead)
            wait_until(lambda: internals(next_one).worker.leader.is_leader)  # noqa: B023
        wait_until(lambda: len(engines[2].workers.list()) == 1)

        engines[2].signal(run.id, "go", 7)
        assert engines[2].run(run.id).result(timeout=20) == 7
        assert called == [1]


def test_who_only_looks_now_and_then_notices_when_both_of_the_oldest_die(database):
    with ExitStack() as stack:
        engines = [stack.enter_context(open_engine(database)[0]) for _ in range(3)]
        for engine in engines[:2]:
            die(engine)

        wait_until(lambda: internals(engines[2]).worker.leader.is_leader)
        wait_until(lambda: len(engines[2].workers.list()) == 1)


def test_a_run_past_its_deadline_is_ended_whoever_leads(database):
    leader, _ = open_engine(database)
    with leader, Engine(database, workflows=[asking]) as other:
        run = other.start(
            asking, deadline="300ms", lane="nobody serves this", capabilities=["none"]
        )

        wait_until(lambda: run.status == "expired")


def after_the_start(store, action):
    """Call *action* once, in the transaction's thread, when a start is committed."""

    def call_once(batch, answers):
        if isinstance(batch[0], StartRuns):
            store.after.remove(call_once)
            action()

    store.after.append(call_once)


@pytest.mark.parametrize("outer", [noting, noting_plainly], ids=["async", "def"])
def test_a_process_that_was_stopped_does_not_begin_a_step_that_went_on_elsewhere(database, outer):
    engine, store = open_engine(database)
    with engine:
        worker = internals(engine).worker

        def take_over():
            store.store.apply([EndSession(worker.session_id, crashed=False)])
            worker.session._sure_until = (
                0.0  # as it is for one that was stopped for longer than it may be silent
            )

        after_the_start(store, take_over)
        assert engine.start(outer, 1).result(timeout=20) == 2
        assert called == [3, 3]


def be_silent(worker):
    worker.session._sure_until = 0.0


def doubt_twice(worker):
    worker.loop.call_soon_threadsafe(
        lambda: worker.verify_session().add_done_callback(lambda _: worker.verify_session())
    )
    worker.session._sure_until = 0.0


@pytest.mark.parametrize("interrupt", [be_silent, doubt_twice])
@pytest.mark.parametrize("outer", [noting, noting_plainly], ids=["async", "def"])
def test_a_process_that_was_stopped_and_still_holds_its_runs_goes_on(database, outer, interrupt):
    engine, store = open_engine(database)
    with engine:
        after_the_start(store, lambda: interrupt(internals(engine).worker))

        assert engine.start(outer, 1).result(timeout=20) == 2
        assert called == [1, 1]


@pytest.mark.parametrize("kind", [Claim, StartRuns])
def test_what_was_leased_while_the_store_was_in_trouble_goes_on(database, kind):
    engine, store = open_engine(database, session_ttl="600ms")

    def lose_the_answer(batch, answers):
        if any(isinstance(op, kind) and answer for op, answer in zip(batch, answers, strict=True)):
            store.after.remove(lose_the_answer)
            raise StoreUnavailable(database=database, reason="gone for too long")

    with engine:
        store.after.append(lose_the_answer)
        if kind is Claim:
            with closing(Engine(database)) as elsewhere:
                elsewhere.start(noting, 1, id="r1")
        else:
            with pytest.raises(StoreUnavailable):
                engine.start(noting, 1, id="r1")
        wait_until(lambda: list(engine.runs()) and engine.run("r1").status == "completed")
        assert not store.after and called == [1, 1]


def test_two_beats_that_find_the_session_gone_open_one_session(database):
    engine, store = open_engine(database)
    with engine:
        worker = internals(engine).worker
        store.store.apply([EndSession(worker.session_id, crashed=False)])

        async def beat_twice():
            await asyncio.gather(worker.session.beat(), worker.session.beat())

        asyncio.run_coroutine_threadsafe(beat_twice(), worker.loop).result(20)

        assert [worker_.session for worker_ in engine.workers.list()] == [worker.session_id]


@workflow(name="duties.counting")
async def counting() -> list[object]:
    return [await wait_signal("go") for _ in range(3)]


def test_a_signal_that_comes_while_a_run_is_taken_up_counts_once(database):
    engine, store = open_engine(database, idle_timeout="0s")
    with engine:
        run = engine.start(counting)

        def signals_of(run_ids):
            del store.signals.of_runs
            thread = threading.Thread(target=engine.signal, args=(run.id, "go", 2))
            thread.start()
            thread.join()
            return store.store.signals.of_runs(run_ids)

        wait_until(lambda: run.status == "waiting" and run.record.session_id is None)
        store.signals.of_runs = signals_of
        engine.signal(run.id, "go", 1)
        wait_until(lambda: sum(event.kind == "signal_received" for event in run.history()) >= 2)
        engine.signal(run.id, "go", 3)

        assert run.result(timeout=20) == [1, 2, 3]


@pytest.mark.parametrize("question", ["runs.routes", "lanes.all"])
def test_routes_that_could_not_be_read_are_read_again(database, question):
    engine, store = open_engine(database, poll="1h")
    with engine, closing(Engine(database)) as elsewhere:
        run = elsewhere.start(noting, 1, delay="1d")
        wait_until(lambda: internals(engine).worker.claims.route_cache._routes)
        trouble = store.before[question] = [StoreBusy(why="the statement was cancelled")]
        other = elsewhere.start(noting, 2, lane="another")

        assert other.result(timeout=60) == 4
        assert not trouble
        run.cancel()


@pytest.mark.parametrize(
    ("question", "idle_timeout"),
    [("signals.of_runs", "0s"), ("runs.histories", "0s"), ("runs.update", "5s")],
)
def test_a_question_that_the_store_cannot_answer_now_leaves_no_run_behind(
    database, question, idle_timeout
):
    engine, store = open_engine(database, session_ttl="600ms", idle_timeout=idle_timeout)
    with engine:
        run = engine.start(asking)
        wait_until(
            lambda: (
                run.status == "waiting" and (idle_timeout != "0s" or run.record.session_id is None)
            )
        )
        trouble = store.before[question] = [StoreBusy(why="the statement was cancelled")]
        with closing(Engine(database)) as elsewhere:
            elsewhere.signal(run.id, "go", 7)
        wait_until(lambda: not trouble)

        assert run.result(timeout=20) == 7
        assert called == [1]
        assert "run_stuck" not in [event.kind for event in run.history()]
