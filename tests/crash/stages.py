"""What tests of crashes share: engines that live one after another on one database, and real
workers that are killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any

from holdfast import Engine
from holdfast.connect.open_store import open_store
from holdfast.errors import EngineClosed
from holdfast.store.runs.operations import EndSession
from holdfast.store.store import Store
from holdfast.testing import Lab
from holdfast.testing.clock import VirtualClock
from holdfast.testing.faults import Crash, Fault, FaultyStore
from holdfast.testing.lab import hasty_store
from holdfast.testing.recorder import CommitRecorder
from tests.crash.test_processes import Workers

Act = Callable[[Lab], object]


class Stage:
    """A database, and engines on it, one after another: each dies as planned, and the next goes on
    with the script."""

    def __init__(
        self,
        database: str,
        script: list[Act],
        plans: list[Fault],
        workflows: Sequence[Any],
        clock: VirtualClock,
    ) -> None:
        self.database, self.script, self.plans, self.workflows = database, script, plans, workflows
        self.clock, self.ledger, self.done = clock, CommitRecorder(), 0
        self.zombies: list[Lab] = []

    @contextmanager
    def played(self) -> Iterator[Store]:
        """Play the script to its end, and give the store that it left behind."""
        try:
            for number, plan in enumerate([*self.plans, None]):
                if self._live(number, plan):
                    break
        finally:
            for zombie in self.zombies:
                zombie.close()
        if self.zombies:
            # A zombie may have committed something after the last engine had settled, and was
            # closed before it did what follows from that.
            self._live(len(self.plans) + 1, None)
        with closing(open_store(self.database, clock=self.clock)) as store:
            assert store.check() == []
            yield store

    def _live(self, number: int, plan: Fault | None) -> bool:
        open_it = open_store if self.database.startswith("postgresql:") else hasty_store
        store = FaultyStore(
            open_it(self.database, clock=self.clock), self.ledger, plan, engine=number
        )
        try:
            lab = Lab(self.database, clock=self.clock, store=store, workflows=self.workflows)
        except EngineClosed:
            assert store.dead
            self._notice()
            return False
        try:
            self._play_script(lab, store)
        except BaseException:
            lab.abandon()  # an engine left open would write to the folder while it is removed
            raise
        if store.spare():
            lab.close()
            return True
        if store.dead:
            lab.abandon()
            self._notice()
        else:
            self.zombies.append(lab)
        return False

    def _play_script(self, lab: Lab, store: FaultyStore) -> None:
        with suppress(Crash, EngineClosed):
            lab.settle()
            while self.done < len(self.script) and not (store.dead or store.lost):
                self.script[self.done](lab)
                lab.settle()
                self.done += not (store.dead or store.lost)

    def _notice(self) -> None:
        """End the sessions of the dead at once: how soon others notice by themselves is tested
        elsewhere."""
        with closing(open_store(self.database, clock=self.clock)) as store:
            while sessions := store.sessions.all():
                store.apply([EndSession(session.id, crashed=True) for session in sessions])


@contextmanager
def databases(kind: str, request, tmp_path):
    """Yield what gives out empty databases."""
    if kind == "sqlite":
        numbers = iter(range(10_000))
        yield lambda: str(tmp_path / f"{next(numbers)}.db")
        return
    server = request.getfixturevalue("postgres_server")
    with ExitStack() as lent:
        yield lambda: lent.enter_context(server.lend())


@contextmanager
def victims(kind: str, request, tmp_path, *, count: int = 2) -> Iterator[tuple[Workers, Engine]]:
    """Yield so many real workers on an empty database, and an engine that does not work there."""
    with databases(kind, request, tmp_path) as fresh:
        workers = Workers(tmp_path)
        workers.database = fresh()
        with closing(Engine(workers.database, workflows=[])) as engine:
            try:
                for _ in range(count):
                    workers.start(crash_limit=50)
                yield workers, engine
            finally:
                for worker in list(workers.running):
                    workers.kill(worker)


def replace_one(workers: Workers) -> None:
    """Kill the worker that is there the longest, and start another one."""
    workers.kill(workers.running[0])
    workers.start(crash_limit=50)
