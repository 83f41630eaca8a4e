"""The store compared with a small model: after any operations on both, they agree.

The model knows the table of statuses and the rules of claiming, and nothing of SQL.
"""

import itertools
from contextlib import nullcontext
from dataclasses import dataclass, field

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast.core import claiming
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Session
from holdfast.core.status import FINAL, HELD, NEXT, Move, Status, after
from holdfast.errors import (
    IllegalMove,
    LeaseLost,
    RunExists,
    RunFinished,
    RunNotFinished,
    RunNotFound,
)
from holdfast.store.effects import RevisionChanged
from holdfast.store.runs.operations import (
    Advance,
    Claim,
    EndSession,
    ExpireRuns,
    OpenSession,
    ReplayRun,
    RequestCancel,
    ResumeRun,
    StartRuns,
)
from holdfast.store.signals.operations import SignalRun
from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.store import Store
from holdfast.testing.conformance import SECOND, HandClock

ROUTE = Route("default", "greet", "1", "default")
WAITS = b'[{"kind":"signal","name":"paid"}]'
ERROR = b'{"type":"E","message":"m"}'
CRASH_LIMIT = 4


@dataclass
class ModelRun:
    """The fields of a run that decide its status."""

    id: str
    priority: int
    status: Status = Status.PENDING
    generation: int = 0
    revision: int = 0
    seen_revision: int | None = None
    session: str | None = None
    rank: int | None = None
    wake_at: int | None = None
    deadline: int | None = None
    waits: bytes | None = None
    started: bool = False
    cancelled: bool = False
    crashes: int = 0
    crash_seq: int | None = None
    kinds: list[str] = field(default_factory=list)
    signals: int = 0

    @property
    def parked(self):
        return self.status is Status.WAITING or (
            self.status is Status.CANCELLING and self.waits is not None
        )

    def move(self, move):
        self.status = after(self.status, move)

    def sleep(self, waits, wake_at):
        self.rank, self.waits, self.wake_at = None, waits, wake_at

    def ready(self, now):
        self.rank, self.waits, self.wake_at = claiming.rank(now, self.priority), None, None

    def end(self, move, kind):
        self.move(move)
        self.session = self.rank = self.waits = self.wake_at = None
        self.kinds.append(kind)

    def as_state(self):
        """Return the fields that decide whether the run can be claimed."""
        names = ("status", "priority", "crashes", "crash_seq", "waits", "revision", "seen_revision")
        return {name: getattr(self, name) for name in names}


class StoreMachine(RuleBasedStateMachine):
    """All users of a store: callers that start runs, two workers, and operators."""

    folder = driver = None
    numbers = itertools.count()

    def new_store(self):
        store = Store(
            SqliteDatabase(
                self.folder / f"{next(self.numbers)}.db", clock=self.clock, driver=self.driver
            )
        )
        store.database._db.rows("PRAGMA synchronous = OFF")  # no power loss in this test
        return store

    @initialize()
    def open(self):
        self.clock = HandClock()
        self.store = self.new_store()
        self.runs, self.alive = {}, {}
        for name in ("s1", "s2"):
            self.open_session(name)

    def teardown(self):
        self.store.close()

    def do(self, op):
        answer = self.store.apply([op])[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def open_session(self, name):
        session_id = f"{name}-{next(self.numbers)}"
        self.alive[name] = session_id
        now = self.clock.now()
        session = {
            "worker": name,
            "host": "h",
            "pid": 1,
            "slot": -1,
            "started_at": now,
            "beat_at": now,
            "serves": b"{}",
        }
        self.do(OpenSession(Session(id=session_id, expires_at=now + SECOND, **session)))

    def some(self, data, runs):
        return data.draw(st.sampled_from(sorted(runs, key=lambda run: run.id)))

    def event(self, run, kind=EventKind.MARKED):
        return Event(kind=kind, seq=len(run.kinds) + 1)

    # Callers that start runs

    @rule(
        data=st.data(),
        priority=st.integers(-1, 1),
        delay=st.sampled_from([None, None, 1, 5]),
        deadline=st.sampled_from([None, None, 3, 8]),
        session=st.sampled_from([None, "s1", "s2", "gone"]),
    )
    def start(self, data, priority, delay, deadline, session):
        now = self.clock.now()
        run = ModelRun(f"r{len(self.runs):02}", priority)
        run.deadline = None if deadline is None else now + deadline * SECOND
        available_at = None if delay is None else now + delay * SECOND
        session_id = self.alive.get(session, session)

        new = NewRun(
            id=run.id,
            route=ROUTE,
            input=b"[]",
            priority=priority,
            available_at=available_at,
            deadline=run.deadline,
            session_id=session_id,
        )
        started = self.do(StartRuns([new]))[0]

        leased = session in self.alive and delay is None
        assert (started.created, started.leased) == (True, leased)
        if leased:
            run.status, run.generation, run.session, run.started = (
                Status.RUNNING,
                1,
                session_id,
                True,
            )
        elif delay is None:
            run.ready(now)
        else:
            run.wake_at = available_at
        self.runs[run.id] = run

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), same=st.booleans())
    def start_again(self, data, same):
        run = self.some(data, self.runs.values())
        with nullcontext() if same else pytest.raises(RunExists):
            answer = self.do(
                StartRuns([NewRun(id=run.id, route=ROUTE, input=b"[]" if same else b"[1]")])
            )[0]
            assert (answer.created, answer.leased) == (False, False)

    # Workers

    @rule(name=st.sampled_from(["s1", "s2"]), limit=st.integers(1, 3))
    def claim(self, name, limit):
        now = self.clock.now()
        routes = [(number, route.lane) for number, route in self.store.runs.routes().items()]
        claimed = self.do(Claim(self.alive[name], routes, limit))

        for run in self.runs.values():
            if (
                run.session is None
                and run.wake_at is not None
                and run.wake_at <= now
                and Move.WAKE in NEXT[run.status]
            ):
                due = run.wake_at
                run.move(Move.WAKE)
                run.ready(due)
                run.revision += 1
        best = self.best(self.alive[name], limit)
        assert [run.id for run in claimed] == [run.id for run in best]
        for run in best:
            run.move(Move.CLAIM)
            run.rank, run.session, run.started = None, self.alive[name], True
            run.generation += 1

    def best(self, session_id, limit):
        """Return the ready runs that a claim takes first.

        Of the runs that may have killed their worker it takes one, and none while the session
        holds another suspect that is not waiting.
        """
        suspected = any(
            run.session == session_id
            and run.crashes >= 2
            and run.crash_seq == len(run.kinds)
            and run.status is not Status.WAITING
            for run in self.runs.values()
        )
        best = []
        for run in sorted(
            (run for run in self.runs.values() if run.rank is not None),
            key=lambda run: (run.rank, run.id),
        ):
            if len(best) < limit and not (suspected and run.crashes >= 2):
                best.append(run)
                suspected = suspected or run.crashes >= 2
        return best

    def held(self):
        return [run for run in self.runs.values() if run.session is not None]

    def advance(self, run, generation=None, **options):
        options.setdefault("events", [self.event(run)])
        return self.do(
            Advance(
                run_id=run.id,
                generation=run.generation if generation is None else generation,
                **options,
            )
        )

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), how=st.sampled_from(["append", "park", "finish", "release"]))
    def write_without_the_lease(self, data, how):
        run = self.some(data, self.runs.values())
        stale = (
            run.generation
            if run.session is None
            else run.generation - data.draw(st.sampled_from([1, -1]))
        )
        options = {
            "append": {},
            "park": {"status": Status.WAITING, "waits": WAITS, "revision": run.revision},
            "finish": {"status": Status.COMPLETED, "result": b"1"},
            "release": {"status": Status.PENDING, "release": True},
        }[how]
        with pytest.raises(LeaseLost):
            self.advance(run, stale, **options)

    @precondition(lambda self: self.held())
    @rule(data=st.data())
    def append(self, data):
        run = self.some(data, self.held())
        self.advance(run)
        run.kinds.append(EventKind.MARKED)

    @precondition(lambda self: self.held())
    @rule(
        data=st.data(), keep=st.booleans(), timer=st.sampled_from([None, 2, 6]), seen=st.booleans()
    )
    def park(self, data, keep, timer, seen):
        run = self.some(data, self.held())
        wake_at = None if timer is None else self.clock.now() + timer * SECOND
        revision = run.revision if seen else run.revision + 1
        status = after(run.status, Move.PARK)

        answer = self.advance(
            run, status=status, waits=WAITS, wake_at=wake_at, revision=revision, release=not keep
        )

        if not seen:
            assert answer == RevisionChanged(revision=run.revision)
            return
        run.move(Move.PARK)
        run.sleep(WAITS, wake_at)
        run.seen_revision = revision if keep else run.seen_revision
        run.session = run.session if keep else None
        run.kinds.append(EventKind.MARKED)

    @precondition(lambda self: self.held())
    @rule(data=st.data(), keep=st.booleans())
    def go_on_without_having_looked(self, data, keep):
        """The holder does not know whether the run was asked to stop meanwhile."""
        run = self.some(data, self.held())
        self.advance(run, status=Status.RUNNING if keep else Status.PENDING, release=not keep)
        run.move(Move.GO_ON)
        run.sleep(None, None)
        run.seen_revision = None if keep else run.seen_revision
        run.kinds.append(EventKind.MARKED)
        if not keep:
            run.move(Move.RELEASE)
            run.session = None
            run.ready(self.clock.now())

    @precondition(lambda self: self.held())
    @rule(
        data=st.data(),
        move=st.sampled_from([Move.COMPLETE, Move.FAIL, Move.END_CANCELLED, Move.GIVE_UP]),
    )
    def end(self, data, move):
        run = self.some(data, self.held())
        status = after(run.status, move)
        said = {"result": b"1"} if status is Status.COMPLETED else {"error": ERROR}
        self.advance(run, status=status, release=not status is not Status.STUCK, **said)
        run.end(move, EventKind.MARKED)

    @rule(name=st.sampled_from(["s1", "s2"]), crashed=st.booleans())
    def end_session(self, name, crashed):
        session_id = self.alive.pop(name)
        held = sorted(
            (run for run in self.held() if run.session == session_id), key=lambda run: run.id
        )

        assert self.do(EndSession(session_id, crashed, CRASH_LIMIT)) == [run.id for run in held]

        for run in held:
            progress = [
                seq
                for seq, kind in enumerate(run.kinds, start=1)
                if kind not in claiming.NO_PROGRESS
            ]
            fate = claiming.recovery_decision(
                run.as_state(),
                last_seq=len(run.kinds),
                last_progress=max(progress, default=0),
                crashed=crashed,
                limit=CRASH_LIMIT,
                now=self.clock.now(),
            )
            lost = crashed and fate.stuck is None and not claiming.is_parked(run.as_state())
            run.status, run.crashes, run.crash_seq, run.session = (
                fate.status,
                fate.crashes,
                fate.crash_seq,
                None,
            )
            run.generation += 1
            if fate.rank is not None:
                run.ready(self.clock.now())
            elif fate.stuck is not None:
                run.sleep(None, None)
                run.kinds.append(EventKind.RUN_STUCK)
            if lost:
                run.kinds.append(EventKind.LEASE_LOST)
                run.crash_seq = len(run.kinds)  # that event is not progress
        self.open_session(name)

    # Operators

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), name=st.sampled_from(["paid", "other"]))
    def signal(self, data, name):
        run = self.some(data, self.runs.values())
        with pytest.raises(RunFinished) if run.status in FINAL else nullcontext():
            assert self.do(SignalRun(run.id, name, b"1")).new
        if run.status in FINAL:
            return
        run.revision += 1
        run.signals += 1
        if run.session is None and run.parked and name == "paid":
            run.move(Move.WAKE)
            run.ready(self.clock.now())

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), force=st.sampled_from([False, False, True]))
    def cancel(self, data, force):
        run = self.some(data, self.runs.values())
        if run.status in FINAL:
            with pytest.raises(RunFinished):
                self.do(RequestCancel(run.id, "enough", force))
            return
        answer = self.do(RequestCancel(run.id, "enough", force))
        if force or not run.started:
            run.end(Move.END_CANCELLED, EventKind.RUN_CANCELLED)
            run.generation += 1
            run.revision += 1
        else:
            self.ask_to_stop(run)
        assert answer is run.status

    def ask_to_stop(self, run):
        run.cancelled = True
        if run.status is Status.CANCELLING:
            return
        run.move(Move.CANCEL)
        run.revision += 1
        if run.session is None:
            run.ready(self.clock.now())

    @rule()
    def expire(self):
        now = self.clock.now()
        overdue = [
            run
            for run in self.runs.values()
            if run.deadline is not None
            and run.deadline <= now
            and run.session is None
            and run.status not in FINAL
            and run.status is not Status.CANCELLING
        ]
        assert self.do(ExpireRuns()) == len(overdue)
        for run in overdue:
            if run.started and run.status is not Status.STUCK:
                self.ask_to_stop(run)
            else:
                run.end(Move.EXPIRE, EventKind.RUN_EXPIRED)
                run.generation += 1
                run.revision += 1

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def resume(self, data):
        run = self.some(data, self.runs.values())
        if run.status is not Status.STUCK:
            with pytest.raises((IllegalMove, RunFinished)):
                self.do(ResumeRun(run.id))
            return
        self.do(ResumeRun(run.id))
        run.move(Move.RESUME)
        if run.cancelled:
            run.move(Move.CANCEL)
        run.ready(self.clock.now())
        run.revision += 1
        run.crashes, run.crash_seq = 0, None
        run.kinds.append(EventKind.RUN_RESUMED)

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def replay(self, data):
        run = self.some(data, self.runs.values())
        if run.status not in FINAL:
            with pytest.raises(RunNotFinished):
                self.do(ReplayRun(run.id, []))
            return
        self.do(ReplayRun(run.id, []))
        run.move(Move.REPLAY)
        run.ready(self.clock.now())
        run.generation += 1
        run.revision += 1
        run.cancelled, run.deadline, run.crashes, run.crash_seq = False, None, 0, None
        run.kinds.append(EventKind.RUN_REPLAYED)

    @rule(seconds=st.integers(1, 4))
    def pass_time(self, seconds):
        self.clock.move(seconds * SECOND)

    @rule()
    def ask_for_what_is_not_there(self):
        for op in (
            SignalRun("none", "paid", b""),
            RequestCancel("none", ""),
            ResumeRun("none"),
            ReplayRun("none", []),
        ):
            with pytest.raises(RunNotFound):
                self.do(op)

    # Invariants

    @invariant()
    def the_store_is_what_the_model_says(self):
        for run in self.runs.values():
            stored = self.store.runs.get(run.id)
            assert (stored.status, stored.generation, stored.revision) == (
                run.status,
                run.generation,
                run.revision,
            ), run
            assert (stored.session_id, stored.waits, stored.wake_at) == (
                run.session,
                run.waits,
                run.wake_at,
            ), run
            assert (stored.crashes, stored.cancel_reason is not None) == (
                run.crashes,
                run.cancelled or self.ended(run),
            ), run

    def ended(self, run):
        """Return whether the run was ended from outside: such a run has a reason, too."""
        return run.status in (Status.CANCELLED, Status.EXPIRED) and run.kinds[-1] in (
            EventKind.RUN_CANCELLED,
            EventKind.RUN_EXPIRED,
        )

    @invariant()
    def every_history_is_what_was_written(self):
        histories = self.store.runs.histories(list(self.runs))
        for run in self.runs.values():
            assert [event.kind for event in histories[run.id]] == run.kinds
            assert len(self.store.signals.of_run(run.id)) == run.signals

    @invariant()
    def only_sessions_that_live_hold_what_can_be_held(self):
        for session_id in self.alive.values():
            assert sorted(
                run_id for run_id, _, _ in self.store.sessions.held_by(session_id)
            ) == sorted(run.id for run in self.held() if run.session == session_id)
        assert all(run.session in self.alive.values() and run.status in HELD for run in self.held())

    @invariant()
    def somebody_will_look_again_at_whatever_can_go_on(self):
        """No run stalls silently: a run without a holder that waits for nothing can be claimed, now
        or when it is due."""
        for run in self.runs.values():
            if (
                run.session is None
                and run.status in (Status.PENDING, Status.CANCELLING)
                and run.waits is None
            ):
                assert run.rank is not None or run.wake_at is not None, run

    @invariant()
    def no_law_is_broken(self):
        assert self.store.check() == []


@pytest.mark.parametrize("driver", ["sqlite3", "apsw"])
def test_whatever_is_done_the_store_does_what_the_model_says(tmp_path, driver):
    machine = type("Machine", (StoreMachine,), {"folder": tmp_path, "driver": driver})

    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
