"""The processes of a round: workers, clients that start runs, and holders of leased tasks.

Each is a real process that faults may kill or stop at any instruction. They are forked from a
server that has imported everything, because a killed process must be replaced within milliseconds
if a round is to have thousands of faults.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, NoReturn, TypeVar

from holdfast import Engine
from holdfast.errors import HoldfastError, LeaseLost, StoreGone
from torture import workflows
from torture.controls import Controls
from torture.ledger import Ledger

T = TypeVar("T")

SESSION_LIFETIME = 2.0
"""Seconds after which a silent worker is taken for dead."""

LEASE_LIFETIME = 1.0
"""Seconds for which a task is leased."""

GAP = 0.3
"""Seconds of silence of a whole process that the ledger records: it was stopped, or the machine was
too busy."""

_RETRY_PAUSE = 0.05


class Place(NamedTuple):
    """Where a process of a round finds everything; sent to the process when it starts."""

    url: str
    ledger: str
    controls: str
    insert_entry: str


def run_worker(place: Place) -> None:
    """Work on runs until the process is killed."""
    ledger = _prepare(place)
    engine = _until_done(ledger, "open", lambda: _working_engine(place.url))
    workflows.process.engine = engine
    ledger.write("ready")
    while True:
        time.sleep(0.5)
        _exit_if_gone(ledger, engine)


def _exit_if_gone(ledger: Ledger, engine: Engine) -> None:
    """Exit when the files of the database were moved: an engine refuses everything from then on,
    and a supervisor restarts it."""
    try:
        engine.workers.list()
    except StoreGone as error:
        _exit(ledger, "work", error)
    except HoldfastError:
        return  # a full disk, a crashed server: the engine goes on by itself


def _exit(ledger: Ledger, action: str, error: StoreGone) -> NoReturn:
    ledger.write("refused", action=action, error=type(error).__name__, message=str(error))
    os._exit(1)


def _working_engine(url: str) -> Engine:
    engine = Engine(
        url,
        session_ttl=f"{SESSION_LIFETIME}s",
        idle_timeout="50ms",
        crash_limit=1_000_000,
        concurrency=200,
    )
    try:
        engine.work()
    except BaseException:
        engine.close()
        raise
    return engine


def run_client(place: Place, name: str, seed: int) -> None:
    """Start runs, graphs and tasks, and send signals, until the process is killed. Half of the
    clients also work: then the runs that they start are leased to them from the start."""
    ledger = _prepare(place)
    controls = Controls(place.controls)
    dice = random.Random(seed)
    works = dice.random() < 0.5
    engine = _until_done(
        ledger, "open", lambda: _working_engine(place.url) if works else Engine(place.url)
    )
    workflows.process.engine = engine
    client = Client(engine, ledger, name, dice)
    ledger.write("ready")
    while True:
        if controls.accepts_runs:
            client.start_one()
        else:
            time.sleep(0.02)


class Client:
    """Starts one thing after another. What it announced before it was killed, its successor does
    not know and need not repeat."""

    def __init__(self, engine: Engine, ledger: Ledger, name: str, dice: random.Random) -> None:
        self._engine: Engine = engine
        self._ledger: Ledger = ledger
        self._name: str = name
        self._dice: random.Random = dice
        self._count: int = 0

    def start_one(self) -> None:
        """Start a run, a graph or a task; record its acknowledgement."""
        self._count += 1
        run_id = f"{self._name}-{self._count}"
        n = self._dice.randrange(1000)
        kind = self._dice.choice([*workflows.SHAPES, "graph", "task"])
        if kind == "graph":
            self._acknowledged(
                "start graph", lambda: self._engine.graphs.start(workflows.diamond(n), id=run_id)
            )
        elif kind == "task":
            policy = {"retries": 1000, "delay": "0s", "reclaims": 1_000_000}
            self._acknowledged(
                "start task",
                lambda: self._engine.start(workflows.TASK, n, id=run_id, policy=policy),
            )
        elif kind in workflows.STARTED_TOGETHER and self._dice.random() < 0.3:
            self._start_many(kind, n)
            return
        else:
            shape = workflows.SHAPES[kind]
            self._acknowledged("start", lambda: self._engine.start(shape.workflow, n, id=run_id))
        self._ledger.write("started", run=run_id, shape=kind, n=n)
        if kind == "signalled":
            self._send_signals(run_id)

    def _start_many(self, kind: str, n: int) -> None:
        """Start several runs in one commit."""
        shape = workflows.SHAPES[kind]
        for run in _until_done(
            self._ledger, "start many", lambda: self._engine.start_many(shape.workflow, [n] * 5)
        ):
            self._ledger.write("started", run=run.id, shape=kind, n=n)

    def _send_signals(self, run_id: str) -> None:
        for key in workflows.SIGNAL_KEYS:
            send = partial(self._engine.signal, run_id, "add", 1, key=key)
            self._acknowledged("signal", send)
            self._ledger.write("signalled", run=run_id, key=key)
            if self._dice.random() < 0.3:
                self._acknowledged("signal", send)

    def _acknowledged(self, action: str, call: Callable[[], Any]) -> None:
        _until_done(self._ledger, action, call)


def run_holder(place: Place, name: str, seed: int) -> None:
    """Lease tasks and do their work, until the process is killed."""
    ledger = _prepare(place)
    dice = random.Random(seed)
    engine = _until_done(ledger, "open", lambda: Engine(place.url, crash_limit=1_000_000))
    while True:
        leases = _until_done(
            ledger,
            "leases",
            lambda: engine.tasks.worker(name, workflows=[workflows.TASK], ttl=f"{LEASE_LIFETIME}s"),
        )
        ledger.write("ready")
        try:
            while True:
                for lease in _until_done(ledger, "claim", partial(leases.claim, 3, wait="200ms")):
                    _do_task(ledger, dice, lease)
        except LeaseLost:
            continue


def _do_task(ledger: Ledger, dice: random.Random, lease: Any) -> None:
    """Do the work of one task: complete it, or let it be tried again."""
    facts = {"run": lease.run.id, "generation": lease.run.generation, "attempt": lease.attempt}
    ledger.write("leased", **facts)
    n = lease.input
    try:
        if dice.random() < 0.2:
            _until_done(ledger, "fail", lambda: lease.fail("transient", "not yet"))
            return
        _until_done(ledger, "emit", lambda: lease.emit("working"))
        _until_done(ledger, "complete", lambda: lease.complete(n + 1))
        ledger.write("completed", **facts)
    except LeaseLost:
        ledger.write("lease lost", **facts)


def _prepare(place: Place) -> Ledger:
    """Set up what all processes of a round need; return the ledger."""
    ledger = Ledger(place.ledger)
    Controls(place.controls).replace_wall_clock()
    workflows.process.ledger = ledger
    workflows.process.insert_entry = place.insert_entry
    handler = _LedgerHandler(ledger)
    logging.getLogger("holdfast").addHandler(handler)
    threading.Thread(target=_record_gaps, args=(ledger,), daemon=True).start()
    return ledger


class _LedgerHandler(logging.Handler):
    """Write what the engine logs as an error to the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.ERROR)
        self._ledger: Ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        self._ledger.write("logged", message=record.getMessage(), trace=trace)


def _record_gaps(ledger: Ledger) -> None:
    """Record each time at which this whole process stood still."""
    last = time.monotonic()
    while True:
        time.sleep(GAP / 4)
        now = time.monotonic()
        if now - last > GAP:
            ledger.write("gap", since=last, until=now)
        last = now


def _until_done(ledger: Ledger, action: str, call: Callable[[], T]) -> T:
    """Call until the answer is not an error of the store: a full disk, a crashed server. Other
    errors are found by the checks."""
    while True:
        try:
            return call()
        except LeaseLost:
            raise
        except StoreGone as error:
            _exit(ledger, action, error)
        except HoldfastError as error:
            ledger.write("refused", action=action, error=type(error).__name__, message=str(error))
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            ledger.write("raw error", action=action, error=type(error).__name__, trace=trace)
        time.sleep(_RETRY_PAUSE)
