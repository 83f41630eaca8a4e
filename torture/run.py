"""Torture: workers are killed, stopped and restarted at random while hundreds of runs of every shape go on.

All must finish with the right result, nothing that was recorded may have been done again, and every law must hold. The seed
repeats the schedule. Run it with ``make torture MINUTES=5``, or ``python torture/run.py --help``.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

import msgspec

from holdfast import Engine
from holdfast.core.status import FINAL
from holdfast.testing.postgres import Server, postgres

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))
import workflows  # noqa: E402

LIFETIME = 1.5
"""Seconds after which a silent worker is taken for dead."""

MISFORTUNES = ["kill -9", "kill -9", "kill -9", "stopped"]
SERVER_MISFORTUNES = ["server restarted", "connections cut"]

WORKER = """
import sys, threading
sys.path.insert(0, {here!r})
import workflows
from holdfast import Engine
with Engine({url!r}, lifetime="{lifetime}s", linger="50ms", crash_limit=1000, concurrency=200) as engine:
    workflows.now = engine._parts.store.now
    print("ready", flush=True)
    sys.stdin.read()
"""


class Torture:
    """One round: a database, some workers, many runs, and much bad luck."""

    def __init__(self, url: str, folder: pathlib.Path, *, seed: int, workers: int, server: Server | None) -> None:
        self.url, self.server = url, server
        self.dice, self.fate = random.Random(seed), random.Random(f"fate {seed}")  # the misfortunes do not hang on the runs
        self.coming: list[str] = []
        self.effects = folder / "effects.txt"
        self.effects.touch()
        self.environment = {**os.environ, "TORTURE_EFFECTS": str(self.effects)}
        self.workers: list[subprocess.Popen[bytes]] = []
        self.wanted = workers
        self.skew = 0 if server is None else 100_000  # microseconds by which the clocks of two workers may differ
        self.engine = Engine(url)
        self.inputs: dict[str, tuple[str, int]] = {}
        self.figures: Counter[str] = Counter()

    def start_worker(self) -> None:
        code = WORKER.format(here=str(HERE), url=self.url, lifetime=LIFETIME)
        worker = subprocess.Popen(
            [sys.executable, "-c", code], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        self.workers.append(worker)
        self.figures["workers started"] += 1

    def start_runs(self, count: int) -> None:
        shapes = sorted(workflows.EXPECTED)
        for _ in range(count):
            shape, n = self.dice.choice(shapes), self.dice.randrange(1000)
            run = self.engine.start(getattr(workflows, shape), n)
            self.inputs[run.id] = (shape, n)
            if shape == "signalled":
                self.engine.signal(run.id, "add", 1, key="0")
        self.figures["runs"] += count

    def send_signals(self) -> None:
        for run_id, (shape, _) in self.inputs.items():
            if shape == "signalled":
                for number in range(3):
                    self.engine.signal(run_id, "add", 1, key=str(number))  # twice does no harm

    def misfortune(self) -> None:
        """Let the next misfortune happen. They come in shuffled rounds that hold every kind, so that none is left out."""
        self.bury()
        while len(self.workers) < self.wanted:
            self.start_worker()
        if not self.coming:
            self.coming = MISFORTUNES + (SERVER_MISFORTUNES if self.server else [])
            self.fate.shuffle(self.coming)
        kind, victim = self.coming.pop(), self.fate.choice(self.workers)
        if kind == "server restarted":
            assert self.server is not None
            self.server.restart("immediate")
        elif kind == "connections cut":
            assert self.server is not None
            cut_connections(self.server, self.url)
        elif kind == "kill -9":
            end(victim)
        else:
            victim.send_signal(signal.SIGSTOP)
            time.sleep(LIFETIME * 1.5)
            victim.send_signal(signal.SIGCONT)
        self.figures[kind] += 1

    def bury(self) -> None:
        """Forget those who are dead, and their pipes."""
        for worker in [worker for worker in self.workers if worker.poll() is not None]:
            worker.communicate()
            self.workers.remove(worker)

    def open_runs(self) -> int:
        return sum(count for status, count in self.engine._parts.store.counts().items() if status not in FINAL)

    def finish(self, patience: float) -> None:
        """Let the workers alone until all is done."""
        self.bury()
        while len(self.workers) < self.wanted:
            self.start_worker()
        limit = time.monotonic() + patience
        while self.open_runs():
            if time.monotonic() > limit:
                self.stop()
                raise AssertionError(f"not finished: {[self.engine.why(run.id) for run in self.unfinished()[:5]]}")
            for worker in [worker for worker in self.workers if worker.poll() is not None]:
                raise AssertionError(f"a worker ended by itself with {worker.returncode}")
            time.sleep(0.05)

    def unfinished(self) -> list[Any]:
        return [run for run in self.engine.runs(limit=10_000) if run.status not in FINAL]

    def stop(self) -> None:
        for worker in self.workers:
            end(worker)

    def judge(self) -> list[str]:
        """Return all that is wrong."""
        wrong = list(self.engine.check())
        for run_id, (shape, n) in self.inputs.items():
            run = self.engine.run(run_id).record
            expect = workflows.EXPECTED[shape]
            if expect is None:
                if run.status != "failed":
                    wrong.append(f"{shape} {run_id} is {run.status}, and should have failed")
            elif run.status != "completed" or msgspec.json.decode(run.result or b"null") != expect(n):
                wrong.append(f"{shape} {run_id} is {run.status} with {run.result!r}, not {expect(n)}")
        return wrong + self.judge_effects()

    def judge_effects(self) -> list[str]:
        """What was recorded as completed must have been done, and not again after that. A worker that was stopped in the
        middle of a step ends it when it wakes, long after somebody else has: that one has an older generation."""
        wrong: list[str] = []
        done: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for line in self.effects.read_text().splitlines():
            run_id, step, generation, _, at, _ = line.split("\t")
            done.setdefault((run_id, step), []).append((int(at), int(generation)))
        completed = 0
        for run in self.engine.runs(limit=100_000):
            for event in self.engine.history(run.id):
                if event.kind != "step_completed":
                    continue
                completed += 1
                times = done.get((run.id, event.step or ""), [])
                if not times:
                    wrong.append(f"{run.id} {event.step} is recorded, but was never done")
                latest = event.at + self.skew
                owner = max((generation for at, generation in times if at <= latest), default=0)
                if any(at > latest and generation >= owner for at, generation in times):
                    told = [(at - event.at, generation) for at, generation in times]
                    wrong.append(f"{run.id} {event.step} was done again after it was recorded: {told}")
            if run.workflow == "torture.saga":
                wrong += self.judge_saga(run.id)
        self.figures["steps recorded"] = completed
        self.figures["effects"] = sum(map(len, done.values()))
        return wrong

    def judge_saga(self, run_id: str) -> list[str]:
        steps = [event.step for event in self.engine.history(run_id) if event.kind == "step_completed"]
        acts = [step for step in steps if step.startswith("act")]
        undone = [step for step in steps if step.startswith("undo")]
        expected = [step.replace("act", "undo undo") for step in reversed(acts)]
        return [] if undone == expected and len(acts) == 5 else [f"{run_id} did {acts} and undid {undone}"]


def cut_connections(server: Server, url: str) -> None:
    """Cut every connection that anybody has to the database, wherever it is in its work."""
    import psycopg

    name = url.split("///")[1].split("?")[0]
    with psycopg.connect(server.url(), autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))


def end(worker: subprocess.Popen[bytes]) -> None:
    """Kill a worker and forget its pipe."""
    worker.send_signal(signal.SIGKILL)
    worker.communicate()


def torture(
    url: str, folder: pathlib.Path, *, seed: int, seconds: float, runs: int, workers: int = 3, server: Server | None = None
) -> dict[str, int]:
    """Torture for a while, and to the end of a round, and return the figures. AssertionError tells all that is wrong."""
    round_ = Torture(url, folder, seed=seed, workers=workers, server=server)
    try:
        for _ in range(workers):
            round_.start_worker()
        until = time.monotonic() + seconds
        while time.monotonic() < until or round_.coming or not round_.figures["stopped"]:
            if round_.open_runs() < runs // 5:
                round_.start_runs(runs // 5)
            time.sleep(round_.fate.uniform(0.1, 0.7))
            round_.misfortune()
        round_.send_signals()
        round_.finish(patience=150)
        wrong = round_.judge()
        assert not wrong, "\n".join([f"seed {seed}:", *wrong[:20]])
        return dict(round_.figures)
    finally:
        round_.stop()
        round_.engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--db", help='a database URL, or "postgres" for a server of its own; by default a temporary file')
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = stack.enter_context(postgres(durable=True)) if given.db == "postgres" else None
        url = server.new_database() if server else given.db or str(pathlib.Path(folder) / "torture.db")
        print(f"seed {given.seed}, {given.minutes:g} minutes, {url}", flush=True)
        started = time.monotonic()
        figures = torture(
            url, pathlib.Path(folder), seed=given.seed, seconds=given.minutes * 60, runs=given.runs, workers=given.workers,
            server=server,
        )  # fmt: skip
        for name, figure in figures.items():
            print(f"{figure:>10} {name}")
        print(f"{time.monotonic() - started:>10.1f} seconds; all finished, nothing done again, every law holds")


if __name__ == "__main__":
    main()
