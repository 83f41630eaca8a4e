"""Real processes, really killed: SIGKILL, SIGSTOP, and a step that takes its own worker down."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from holdfast import Engine
from tests.engine.waiting import PATIENCE, until

VICTIM = Path(__file__).with_name("victim.py")
SOURCES = str(Path(__file__).parents[2] / "src")

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs signals of POSIX")


class Workers:
    """Worker processes on one database, and what they did to the world."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.database = folder, str(folder / "test.db")
        self.running: list[subprocess.Popen[str]] = []
        self.settings: dict[str, str] = {}

    def start(self, **options: object) -> subprocess.Popen[str]:
        """Start a worker and wait until it works."""
        around = {**os.environ, **self.settings}
        around.update(PYTHONPATH=SOURCES, VICTIM_FOLDER=str(self.folder))
        worker = subprocess.Popen(
            [sys.executable, str(VICTIM), self.database, json.dumps(options)],
            env=around,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.running.append(worker)
        assert worker.stdout is not None
        assert worker.stdout.readline().strip() in ("ready", "")
        return worker

    def kill(self, worker: subprocess.Popen[str], number: int = signal.SIGKILL) -> None:
        with suppress(ProcessLookupError):
            os.kill(worker.pid, number)
        if number == signal.SIGKILL:
            self.bury(worker)

    def stop(self, worker: subprocess.Popen[str]) -> None:
        """Stop a worker between two commits: one that is stopped in the middle of one keeps the
        file to itself."""
        until(lambda: self._stopped(worker), "between two commits")

    def _stopped(self, worker: subprocess.Popen[str]) -> bool:
        os.kill(worker.pid, signal.SIGSTOP)
        os.waitpid(worker.pid, os.WUNTRACED)
        with closing(sqlite3.connect(self.database, timeout=0, isolation_level=None)) as db:
            try:
                db.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(worker.pid, signal.SIGCONT)
                return False
            db.execute("ROLLBACK")
        return True

    def bury(self, worker: subprocess.Popen[str]) -> None:
        worker.wait(timeout=PATIENCE)
        assert worker.stdout is not None
        worker.stdout.close()
        self.running.remove(worker)

    def effects(self) -> list[tuple[str, str, int]]:
        """Return what the steps did, in order: run, step, process."""
        file = self.folder / "effects"
        lines = file.read_text().splitlines() if file.exists() else []
        return [(run, step, int(pid)) for run, step, pid in (line.split() for line in lines)]

    def lines(self, word: str, worker: subprocess.Popen[str]) -> int:
        """Return how many lines of a worker begin with a word."""
        return sum(first == word and pid == worker.pid for first, _, pid in self.effects())

    def tell(self, name: str) -> None:
        (self.folder / name).touch()


@pytest.fixture
def workers(tmp_path):
    workers = Workers(tmp_path)
    yield workers
    for worker in list(workers.running):
        workers.kill(worker)


@pytest.fixture
def engine(workers):
    engine = Engine(workers.database, workflows=[])
    yield engine
    engine.close()


@contextmanager
def never_again(engine: Engine, workers: Workers):
    """Nothing that is recorded as completed now is done again in the block."""
    recorded = {
        (run.id, event.step)
        for run in engine.runs().page(limit=1000)
        for event in engine.run(run.id).history()
        if event.kind == "step_completed"
    }
    before = len(workers.effects())
    yield
    again = recorded.intersection((run, step) for run, step, _ in workers.effects()[before:])
    assert not again, f"completed before the crash, and done again after it: {again}"


def count(engine: Engine, *statuses: str) -> int:
    return len(engine.runs(status=list(statuses)).page(limit=1000))


def test_runs_finish_though_their_worker_is_killed_again_and_again(workers, engine):
    dice, concurrency, runs = random.Random(7), 8, 100
    for number in range(runs):
        engine.start(
            "five_steps" if number % 4 else "five_steps_blocking", number, id=f"run-{number}"
        )
    kills = 0
    workers.settings["VICTIM_STEPS"] = "120"  # no worker does all before it is killed

    while count(engine, "completed") < runs:
        with never_again(engine, workers):
            worker = workers.start(concurrency=concurrency, crash_limit=50)
            enough = len(workers.effects()) + dice.randint(20, 120)
            until(
                lambda: (
                    len(workers.effects()) >= enough  # noqa: B023
                    or count(engine, "completed") == runs
                ),
                "progress",
            )
            workers.kill(worker)
        kills += 1

    done = Counter((run, step) for run, step, _ in workers.effects())
    repeated = sum(done.values()) - len(done)
    assert kills > 3
    assert len(done) == runs * 5
    assert repeated <= kills * concurrency
    assert {run.id: run.result for run in engine.runs().page(limit=1000)} == {
        f"run-{n}": 5 * n + 10 for n in range(runs)
    }
    assert engine.database.check() == []


def test_another_worker_takes_over_at_once_when_one_is_killed(workers, engine):
    first = workers.start(session_ttl="1h")  # without a heartbeat it counts as dead in an hour
    runs = [engine.start("patient", "go") for _ in range(10)]
    until(lambda: len(workers.effects()) == 10, "all at work")
    second = workers.start(session_ttl="1h")

    workers.kill(first)
    until(
        lambda: len({run for run, _, pid in workers.effects() if pid == second.pid}) == 10,
        "takeover",
    )
    workers.tell("go")

    assert [run.result(timeout=PATIENCE) for run in runs] == [second.pid] * 10
    assert engine.database.check() == []


@pytest.mark.parametrize("how", ["read", "delete"])
def test_a_live_worker_whose_sessions_file_is_read_or_deleted_keeps_its_runs(workers, engine, how):
    first = workers.start(session_ttl="1h")
    run = engine.start("meddling", how, "go")
    until(lambda: len(workers.effects()) == 1, "at work")

    # It checks all sessions before it says that it is ready.
    second = workers.start(session_ttl="1h")
    third = workers.start(session_ttl="1h")

    assert {session.pid for session in engine.workers.list()} == {first.pid, second.pid, third.pid}
    workers.tell("go")
    assert run.result(timeout=PATIENCE) == first.pid
    assert run.record.generation == 1
    assert engine.database.check() == []


@pytest.mark.parametrize("how", ["read", "delete"])
def test_a_worker_that_lost_its_sessions_file_is_taken_over_at_once_when_it_is_killed(
    workers, engine, how
):
    first = workers.start(session_ttl="1h")
    run = engine.start("meddling", how, "go")
    until(lambda: len(workers.effects()) == 1, "at work")
    second = workers.start(session_ttl="1h")

    workers.kill(first)
    until(lambda: len(workers.effects()) == 2, "takeover")
    workers.tell("go")

    assert run.result(timeout=PATIENCE) == second.pid


def test_a_worker_that_hangs_loses_its_runs_and_comes_back_as_a_new_one(workers, engine):
    hanging = workers.start(session_ttl="1s")
    runs = [engine.start("patient", "go") for _ in range(5)]
    until(lambda: len(workers.effects()) == 5, "all at work")
    old = {session.session for session in engine.workers.list()}
    workers.stop(hanging)

    other = workers.start(session_ttl="1h")  # however slow the machine is, nobody takes it for dead
    until(lambda: len(workers.effects()) == 10, "takeover")
    workers.kill(hanging, signal.SIGCONT)
    workers.tell("go")

    assert [run.result(timeout=PATIENCE) for run in runs] == [other.pid] * 5
    assert all(sum(event.kind == "step_completed" for event in run.history()) == 1 for run in runs)
    until(
        lambda: (
            {s.pid for s in engine.workers.list() if s.session not in old}
            == {hanging.pid, other.pid}
        ),
        "new session",
    )
    workers.kill(other)
    assert engine.start("five_steps", 1).result(timeout=PATIENCE) == 15
    assert engine.database.check() == []


def test_a_stopped_def_workflow_begins_no_step_that_went_on_elsewhere(workers, engine):
    stopped = workers.start(session_ttl="1s", concurrency=20)
    runs = [engine.start("blocked_between_steps", "go") for _ in range(10)]
    until(lambda: workers.lines("blocked", stopped) == 10, "all between their steps")
    workers.stop(stopped)

    other = workers.start(session_ttl="1h", concurrency=20)
    until(lambda: workers.lines("blocked", other) == 10, "takeover")
    workers.tell("go")
    assert [run.result(timeout=PATIENCE) for run in runs] == [other.pid] * 10
    workers.kill(stopped, signal.SIGCONT)
    until(lambda: workers.lines("released", stopped) == 10, "all programs awake")
    until(
        lambda: {session.pid for session in engine.workers.list()} == {stopped.pid, other.pid},
        "new session",
    )
    assert engine.start("five_steps", 1).result(timeout=PATIENCE) == 15

    steps = Counter(
        (run, step) for run, step, _ in workers.effects() if run in {run.id for run in runs}
    )
    assert steps == {
        (run.id, step): 1 for run in runs for step in ("work_in_a_thread", "work_in_a_thread#2")
    }
    assert engine.database.check() == []


def crash_until_stuck(workers, engine, bad, *, limit: int) -> int:
    """Start a worker after the other until a run is stuck; return how many it took down."""
    crashes = 0
    while bad.status != "stuck":
        assert crashes <= limit, "it goes on for ever"
        worker = workers.start(crash_limit=limit)
        until(lambda: worker.poll() is not None or bad.status == "stuck", "crash")  # noqa: B023
        if worker.poll() is not None:
            workers.bury(worker)
            crashes += 1
    return crashes


def test_a_run_that_kills_its_worker_again_and_again_is_stuck(workers, engine):
    waiting = engine.start("listening")
    healthy = workers.start()
    until(lambda: waiting.status == "waiting", "waiting")
    workers.kill(healthy)
    bad = engine.start("poison")

    crashes = crash_until_stuck(workers, engine, bad, limit=3)

    assert crashes == 3
    assert "3 times" in str(bad.why())
    engine.signal(waiting.id, "word", "hello")
    if not workers.running:
        workers.start()
    assert waiting.result(timeout=PATIENCE) == "hello"
    assert engine.start("five_steps", 1).result(timeout=PATIENCE) == 15
    assert engine.database.check() == []


def test_the_neighbours_of_a_run_that_kills_its_worker_complete(workers, engine):
    bad = engine.start("poison")
    neighbours = [engine.start("five_steps", number) for number in range(5)]

    crash_until_stuck(workers, engine, bad, limit=3)
    if not workers.running:
        workers.start()

    assert [run.result(timeout=PATIENCE) for run in neighbours] == [
        5 * number + 10 for number in range(5)
    ]


@pytest.fixture(params=["sqlite", "postgres"])
def workers_anywhere(request, tmp_path):
    with ExitStack() as stack:
        workers = Workers(tmp_path)
        if request.param == "postgres":
            workers.database = stack.enter_context(
                request.getfixturevalue("postgres_server").lend()
            )
        yield workers
        for worker in list(workers.running):
            workers.kill(worker)


def test_places_and_what_was_set_aside_come_back_when_their_worker_is_killed(workers_anywhere):
    with closing(Engine(workers_anywhere.database, workflows=[])) as engine:
        kill_the_holder(workers_anywhere, engine)


def kill_the_holder(workers, engine):
    engine.lanes.set("narrow", per_share=1)
    engine.budgets.set("team", {"tokens": 100})
    first = workers.start()
    runs = [
        engine.start("holder", "go", lane="narrow", share="customer", budget="team")
        for _ in range(2)
    ]
    until(lambda: len(workers.effects()) == 1, "one at work")
    assert [line.reserved for line in engine.budgets.list()[0].dimensions.values()] == [60]

    workers.kill(first)
    second = workers.start()
    until(lambda: len(workers.effects()) == 2, "takeover")
    assert [line.reserved for line in engine.budgets.list()[0].dimensions.values()] == [60]
    assert sorted(run.status for run in runs) == ["pending", "running"]
    workers.tell("go")

    assert [run.result(timeout=PATIENCE) for run in runs] == [second.pid] * 2
    (line,) = engine.budgets.list()[0].dimensions.values()
    assert (line.used, line.reserved) == (10, 0)
    assert engine.database.check() == []
