"""Torture: break everything around hundreds of runs, then compare the database with what the
outside world saw.

A round has workers, clients that start runs, and holders of leased tasks on one database. Faults
kill and stop these processes, crash the server, cut connections, jump the clock, fill the disk and
delete or move files. At the end all runs must have finished with the right result, nothing that was
acknowledged may be missing, nothing that was recorded may have happened again, and every law must
hold. The seed repeats which runs start and which faults come in which order.

Run it with `make torture MINUTES=5`, or `python -m torture.run --help`.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from typing import Any, NamedTuple

from holdfast import Engine
from holdfast.core.status import FINAL
from holdfast.errors import RunFinished, StoreError, StoreGone
from holdfast.testing import internals
from torture import workflows
from torture.checks import Evidence, check_all
from torture.controls import Controls
from torture.databases import PostgresDatabase, SqliteDatabase, postgres_databases, sqlite_databases
from torture.faults import Faults
from torture.ledger import Ledger
from torture.processes import Place, run_client, run_holder, run_worker

WANTED = {"worker": 3, "client": 1, "holder": 1}
"""How many processes of each role a round has."""

PROGRESS = ("effect", "started", "completed")
"""Entries of the ledger that show that processes are at work."""

STANDSTILL = 3.0
"""Seconds after which the next fault comes although nothing has happened since the last one."""

PATIENCE = 150.0
"""Seconds within which everything must finish once the faults have ended."""

_FORK_SERVER = multiprocessing.get_context("forkserver")
_FORK_SERVER.set_forkserver_preload(
    ["torture.processes", "holdfast.connect.blocking.engine", "psycopg", "sqlite3"]
)


class Round:
    """One database, its processes and its faults."""

    def __init__(
        self,
        database: SqliteDatabase | PostgresDatabase,
        folder: pathlib.Path,
        *,
        seed: int,
        runs: int,
        without: frozenset[str],
    ) -> None:
        self.figures: Counter[str] = Counter()
        self._database: SqliteDatabase | PostgresDatabase = database
        self._seed: int = seed
        self._runs: int = runs
        self._dice: random.Random = random.Random(seed)
        self._ledger: Ledger = Ledger(folder / "ledger")
        self._controls: Controls = Controls(folder / "controls")
        self._place: Place = Place(
            database.url, str(folder / "ledger"), str(folder / "controls"), database.insert_entry
        )
        self._processes: dict[str, list[Any]] = {role: [] for role in WANTED}
        self._count: int = 0
        self._engine: Engine = Engine(database.url)
        self._faults: Faults = Faults(
            dice=random.Random(f"faults {seed}"),
            ledger=self._ledger,
            controls=self._controls,
            victims=self._processes.__getitem__,
            folder=database.folder,
            database=database.file,
            server=database.server,
            without=without,
        )

    def torture(self, seconds: float, faults: int) -> None:
        """Inject faults for a while, and at least so many, once the first processes are at work."""
        self._replace_dead()
        self._wait_until_ready()
        ended = threading.Event()
        watch = threading.Thread(target=self._limit_open_runs, args=(ended,))
        watch.start()
        try:
            until = time.monotonic() + seconds
            while time.monotonic() < until or self.figures["faults"] < faults:
                self._pause()
                self.figures[self._faults.next()] += 1
                self.figures["faults"] += 1
        finally:
            ended.set()
            watch.join()

    def _pause(self) -> None:
        """Wait for the next fault: briefly, and until something has happened since the last one, so
        that it hits work."""
        position = self._ledger.size()
        limit = time.monotonic() + STANDSTILL
        time.sleep(self._dice.uniform(0.05, 0.3))
        while True:
            self._replace_dead()
            self._faults.end_due()
            if time.monotonic() > limit or self._ledger.has_since(position, PROGRESS):
                return
            time.sleep(0.02)

    def _limit_open_runs(self, ended: threading.Event) -> None:
        """Let clients start runs only while few are open. A thread of its own: a count waits as
        long as the database is away."""
        while not ended.wait(0.1):
            self._controls.set(accepts_runs=self._open_runs() < self._runs)

    def finish(self) -> list[str]:
        """End the faults and wait until every run has ended; return which runs do not."""
        self._controls.set(accepts_runs=False)
        began = time.monotonic()
        while self._open_runs() or self._is_early():
            self._faults.end_all()
            self._replace_dead()
            self._send_missing_signals()
            if time.monotonic() - began > PATIENCE:
                return [
                    f"{run.id} has not ended: {self._engine.why(run.id)}"
                    for run in self._unfinished()
                ]
            time.sleep(0.1)
        self._faults.end_all()
        self.figures["seconds to finish"] = int(time.monotonic() - began)
        return []

    def check(self) -> list[str]:
        """Return everything that is wrong."""
        self.stop()
        evidence = Evidence(list(self._ledger.entries()))
        entries = self._entries()
        wrong = check_all(self._engine, evidence, entries)
        self.figures["acknowledged starts"] = len(evidence.by_kind["started"])
        self.figures["acknowledged signals"] = len(evidence.by_kind["signalled"])
        self.figures["effects"] = sum(map(len, evidence.effects.values()))
        self.figures["refused calls"] = len(evidence.by_kind["refused"])
        return wrong

    def stop(self) -> None:
        """Kill all processes of the round."""
        for processes in self._processes.values():
            for process in processes:
                process.kill()
                process.join()
            processes.clear()

    def close(self) -> None:
        """Release everything."""
        self.stop()
        self._engine.close()
        self._ledger.close()
        self._controls.close()

    def _entries(self) -> list[tuple[Any, ...]]:
        """Read the rows of the transactional steps; on SQLite no other library may have the file
        open in this process."""
        self._engine.close()
        entries = self._database.entries()
        self._engine = Engine(self._database.url)
        return entries

    def _wait_until_ready(self) -> None:
        """Wait until as many processes as a round has are ready, for a minute at most."""
        limit = time.monotonic() + 60
        while sum(entry.kind == "ready" for entry in self._ledger.entries()) < sum(WANTED.values()):
            if time.monotonic() > limit:
                return
            time.sleep(0.1)

    def _replace_dead(self) -> None:
        for role, wanted in WANTED.items():
            processes = self._processes[role]
            for process in [process for process in processes if not process.is_alive()]:
                process.join()
                processes.remove(process)
            while len(processes) < wanted:
                processes.append(self._start(role))

    def _start(self, role: str) -> Any:
        self._count += 1
        name = f"{role}-{self._seed}-{self._count}"
        if role == "worker":
            process = _FORK_SERVER.Process(target=run_worker, args=(self._place,), daemon=True)
        else:
            target = run_client if role == "client" else run_holder
            seed = self._dice.randrange(1 << 30)
            process = _FORK_SERVER.Process(
                target=target, args=(self._place, name, seed), daemon=True
            )
        process.start()
        return process

    def _open_runs(self) -> int:
        """Return how many runs have not ended; while the database cannot be read, too many to start
        more."""
        try:
            counts = internals(self._engine).store.runs.counts()
        except StoreGone:  # the file was moved; it may be back
            self._engine.close()
            self._engine = Engine(self._database.url)
            return sys.maxsize
        except StoreError:
            return sys.maxsize
        return sum(count for status, count in counts.items() if status not in FINAL)

    def _send_missing_signals(self) -> None:
        """Send the signals of runs whose client was killed before it sent them all. One that was
        acknowledged is not sent again: if it is lost, its run does not end. One that was sent and
        not acknowledged has a key, so it does not count twice."""
        acknowledged = {
            (entry.facts["run"], entry.facts["key"])
            for entry in self._ledger.entries()
            if entry.kind == "signalled"
        }
        with contextlib.suppress(StoreError, RunFinished):
            for run in self._engine.runs(workflow="torture.signalled", status="waiting").page(
                limit=1000
            ):
                for key in workflows.SIGNAL_KEYS:
                    if (run.id, key) not in acknowledged:
                        self._engine.signal(run.id, "add", 1, key=key)

    def _is_early(self) -> bool:
        """Return whether a client may still be about to start something."""
        evidence = [
            entry for entry in self._ledger.entries() if entry.kind in ("started", "signalled")
        ]
        return bool(evidence) and time.monotonic() - evidence[-1].at < 1.0

    def _unfinished(self) -> list[Any]:
        return [run for run in self._engine.runs().page(limit=10_000) if run.status not in FINAL]


class Report(NamedTuple):
    """What a round did, and what went wrong."""

    figures: Counter[str]
    findings: list[str]


def torture(
    database: SqliteDatabase | PostgresDatabase,
    *,
    seed: int,
    seconds: float,
    faults: int = 0,
    runs: int = 200,
    without: frozenset[str] = frozenset(),
    keep: pathlib.Path | None = None,
) -> Report:
    """Torture one database for so many seconds, and with at least so many faults.

    The ledger of a round with findings is copied to the folder *keep*."""
    with tempfile.TemporaryDirectory(prefix="torture-ledger-") as folder:
        round_ = Round(database, pathlib.Path(folder), seed=seed, runs=runs, without=without)
        try:
            round_.torture(seconds, faults)
            findings = round_.finish() or round_.check()
        finally:
            round_.close()
        if findings and keep is not None:
            keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(pathlib.Path(folder) / "ledger", keep / f"ledger-{seed}")
        return Report(round_.figures, [f"seed {seed}: {finding}" for finding in findings])


def torture_all(databases: list[Any], *, seed: int, **options: Any) -> Report:
    """Torture several databases side by side."""
    total = Report(Counter(), [])

    def torture_one(number: int, database: Any) -> None:
        try:
            report = torture(database, seed=seed + number, **options)
        except BaseException:
            total.findings.append(
                f"seed {seed + number}: the round itself failed:\n{traceback.format_exc()}"
            )
            return
        total.figures.update(report.figures)
        total.findings.extend(report.findings)

    threads = [threading.Thread(target=torture_one, args=pair) for pair in enumerate(databases)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return total


def main() -> None:
    """Parse the command line, torture, and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument(
        "--runs", type=int, default=200, help="how many runs are open at once in each database"
    )
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument(
        "--databases", type=int, default=1, help="how many databases are tortured side by side"
    )
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        help="a kind of fault that does not come, as the figures name it",
    )
    parser.add_argument(
        "--keep", type=pathlib.Path, help="a folder for the ledgers of rounds that went wrong"
    )
    parser.add_argument("--db", choices=["sqlite", "postgres"], default="sqlite")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    print(
        f"seed {options.seed}, {options.minutes:g} minutes, {options.databases} on {options.db}",
        flush=True,
    )
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        if options.db == "postgres":
            databases: list[Any] = stack.enter_context(
                postgres_databases(options.databases, options.seed)
            )
        else:
            databases = stack.enter_context(sqlite_databases(options.databases))
        report = torture_all(
            databases,
            seed=options.seed,
            seconds=options.minutes * 60,
            runs=options.runs,
            without=frozenset(options.without),
            keep=options.keep,
        )
    for name, figure in sorted(report.figures.items()):
        print(f"{figure:>10} {name}")
    print(f"{time.monotonic() - started:>10.1f} seconds")
    if report.findings:
        sys.exit("\n".join([f"{len(report.findings)} findings:", *report.findings[:100]]))
    print("all finished, nothing lost, nothing done again, every law holds")


if __name__ == "__main__":
    main()
