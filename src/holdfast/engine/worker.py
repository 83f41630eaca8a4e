"""A worker: a session that claims runs and holds them, one driver each.

It looks when it is told to (a commit in this process, another process's commit, an alarm) and, slowly, when it is not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from holdfast.core.codec import Codec
from holdfast.core.program import Definition
from holdfast.core.records import Allowance, Event, NewRun, Route, Run, Session, Signal
from holdfast.core.status import Status
from holdfast.engine.alarms import Alarm, Alarms
from holdfast.engine.bell import Bell
from holdfast.engine.driver import Driver
from holdfast.engine.duties import Duties
from holdfast.engine.graphs import composer
from holdfast.engine.hands import Hands
from holdfast.engine.happening import knock_all
from holdfast.engine.ids import new_id
from holdfast.engine.known import Known
from holdfast.engine.news import News
from holdfast.engine.payloads import duties as house
from holdfast.engine.payloads.vault import Vault
from holdfast.engine.settings import Settings
from holdfast.engine.settling import Settler
from holdfast.engine.strand import Strand
from holdfast.engine.threads import Threads
from holdfast.engine.webhooks import Couriers
from holdfast.engine.writer import Writer
from holdfast.errors import EngineClosed, HoldfastError, StoreError, UsageError
from holdfast.store.clock import Clock
from holdfast.store.contract import Beat, Claim, Claimed, Delivered, EndSession, Hints, Look, OpenSession, Store, Transition

log = logging.getLogger("holdfast")

BATCH = 200
"""How many runs are claimed at once."""


class Worker:
    """Claims runs for one session and drives them on one loop."""

    def __init__(
        self, store: Store, writer: Writer, codec: Codec, definitions: Callable[[], Mapping[str, Definition]], clock: Clock,
        settings: Settings, learn: Callable[[Definition], None], vault: Vault | None = None,
    ) -> None:  # fmt: skip
        self.store, self.writer, self.codec, self.settings = store, writer, codec, settings
        self.definitions, self.clock, self.learn = definitions, clock, learn
        self.vault = vault or Vault(store)
        self.session_id = ""
        self.stopping = False
        self.linger = settings.linger
        self.seen_lines: dict[tuple[str, ...], list[Allowance]] = {}
        self.stream_window, self.captures = settings.stream_window / 1_000_000, settings.capture
        self.drivers: dict[str, Driver] = {}
        self.watchers: list[Callable[[], None]] = []
        """Called when another process has committed."""
        self.declare: Callable[[], list[Transition]] = list
        """Says what the code declares and the store may not know."""
        self.threads = Threads()
        self.news = News()
        self.couriers = Couriers(self, settings.poll / 1_000_000)
        self.loop: asyncio.AbstractEventLoop
        self.alarms: Alarms
        self.hands: Hands
        self._strands: set[Strand] = set()
        self._jobs: list[asyncio.Task[None]] = []
        self._ready = asyncio.Event()
        self._bell = Bell(settings.watch, settings.idle_watch)
        self._slot = -1
        self._seen_knock = 0
        self._full = self._behind = self._freed = False
        """No room here; some wait for a place in their lane; one was freed since we asked."""
        self._wake: Alarm | None = None
        self._known = Known(store)
        self._served: tuple[str, ...] = ()
        self._sure_until = 0.0
        self._doubt: asyncio.Task[None] | None = None
        self._unheld: set[tuple[str, int]] = set()
        self._found: set[str] = set()
        self.settler = Settler(
            writer, composer(self.vault, codec), self.lease_for,
            lambda run, created_at: self.adopt(self.vault.new_run_opened(run), created_at),
        )  # fmt: skip
        self.duties = Duties(
            store, writer, lifetime=settings.lifetime, crash_limit=settings.crash_limit,
            mine=lambda: self.session_id, freed=self._ready.set, settle=self.settler.look,
        )  # fmt: skip

    # Starting and stopping

    async def start(self) -> None:
        """Open a session and begin to work."""
        self.loop = asyncio.get_running_loop()
        self.writer.attach(self.loop)
        self.alarms = Alarms(self.clock, self.loop)
        self.hands = Hands(self.loop)
        self.writer.listeners += [self._hinted, self.news.hinted]
        self.writer.closing.append(self.settler.last_word)
        self.watchers.append(self.news.changed)
        self.news.watched = True
        self._slot = self.store.take_slot()
        try:
            await self._open_session()
            await self._declare()
            await self.duties.look_after_all()
            await self.duties.look()
            await house.unlock(self)
        except BaseException:  # nobody works here: others must not take this session for a living one
            self._forget()
            raise
        jobs = (
            self._claim_forever,
            self._watch_forever,
            self._beat_forever,
            self.duties.forever,
            self.settler.forever,
            self.couriers.forever,
            partial(house.keep_house_forever, self),
        )
        self._jobs = [self.loop.create_task(self._guarded(job)) for job in jobs]

    async def stop(self, *, grace: float | None = None) -> None:
        """Claim nothing more, let steps at work end, park or hand back what is held, and end the session."""
        self.stopping = True
        for driver in list(self.drivers.values()):
            driver.knock()
        if self._strands:
            ends = [strand.over for strand in self._strands]
            await asyncio.wait(ends, timeout=self.settings.grace if grace is None else grace)
        await self.kill()

    async def kill(self) -> None:
        """Stop at once; what was held is free for others."""
        self.stopping = True
        jobs = [*self._jobs, self._doubt] if self._doubt is not None else self._jobs
        for job in jobs:
            job.cancel()
        self.couriers.close()
        for driver in list(self.drivers.values()):
            driver.close()
        for strand in list(self._strands):
            strand.cancel()
        await asyncio.gather(*jobs, *(strand.over for strand in self._strands), return_exceptions=True)
        try:
            if self.session_id:
                await self.writer.submit(EndSession(self.session_id, crashed=False))
        except HoldfastError as error:
            log.warning("the session could not be ended and will expire: %s", error)
        finally:
            self._forget()

    def _forget(self) -> None:
        """Let go of all that makes others believe that somebody works here."""
        for listener in (self._hinted, self.news.hinted):
            if listener in self.writer.listeners:
                self.writer.listeners.remove(listener)
        if self.settler.last_word in self.writer.closing:
            self.writer.closing.remove(self.settler.last_word)
        self.store.free_slot(self._slot)
        self.alarms.close()
        self.hands.close()
        self.threads.close()

    async def _open_session(self) -> None:
        self.session_id = new_id()
        self._seen_knock = 0
        sure_until = self._lease_from_now()
        await self.writer.submit(OpenSession(self._session()))
        self._bell.rings = self.store.listen(self.session_id, self._heard)
        self._sure_until = sure_until

    async def _declare(self) -> None:
        """Write what the code declares: its schedules."""
        declared = self.declare() if self.settings.schedules else []
        for answer in await asyncio.gather(*map(self.writer.submit, declared), return_exceptions=True):
            if isinstance(answer, UsageError) and not isinstance(answer, EngineClosed):
                log.error("what the code declares is not used: %s", answer)
            elif isinstance(answer, BaseException):
                raise answer

    def _session(self) -> Session:
        now = self.store.now()
        serves = {
            "workflows": {name: _serves(one) for name, one in self.definitions().items()},
            "lanes": self.settings.lanes,
            "capabilities": self.settings.capabilities,
            "namespace": self.settings.namespace,
            "concurrency": self.settings.concurrency,
        }
        self._served = tuple(sorted(self.definitions()))
        return Session(
            id=self.session_id, worker=self.settings.name or f"{socket.gethostname()}-{os.getpid()}", host=socket.gethostname(),
            pid=os.getpid(), slot=self._slot, started_at=now, beat_at=now, expires_at=now + self.settings.lifetime,
            serves=msgspec.json.encode(serves),
        )  # fmt: skip

    async def _guarded(self, job: Callable[[], Any]) -> None:
        """Keep a duty going whatever happens to it; trouble is logged and tried again."""
        while True:
            try:
                await job()
                return
            except EngineClosed:
                return
            except StoreError as error:
                self.writer.troubled = True
                log.warning("the store is in trouble, will try again: %s", error)
            except Exception:
                self.writer.troubled = True
                log.exception("a duty of the worker failed and is taken up again")
            await asyncio.sleep(0.5)

    # Being told

    def _hinted(self, hints: Hints) -> None:
        """A commit of this process touched something. May come from any thread."""
        self._known.hinted(hints)
        if not (hints.ready or hints.runs or hints.delivered or hints.subscriptions or hints.graphs):
            return
        with suppress(RuntimeError):  # the loop is closed: nobody is here to look
            for wanted, look in ((hints.graphs, self.settler.look), (hints.subscriptions, self.couriers.look)):
                if wanted:
                    self.loop.call_soon_threadsafe(look)
            self.loop.call_soon_threadsafe(self._look, hints.ready, list(hints.runs), hints.delivered)

    def _look(self, ready: bool, runs: Iterable[str], delivered: Iterable[Delivered] = ()) -> None:
        if ready:
            self._ready.set()
        knock_all(self.store, [driver for run_id in runs if (driver := self.drivers.get(run_id)) is not None])
        for one in delivered:
            if (driver := self.drivers.get(one.run_id)) is not None:
                driver.hear(one)

    def _heard(self, run_id: str | None) -> None:
        """Another process touched a run that is held here, or something else. May come from any thread."""
        with suppress(RuntimeError):  # as above
            self.loop.call_soon_threadsafe(self._bell.ring if run_id is None else partial(self._look, False, [run_id]))

    async def _watch_forever(self) -> None:
        """Notice commits of other processes."""
        while True:
            await self._bell.wait()
            if not self.store.changed():
                continue
            self._bell.heard()
            self._known.stale = True
            self._ready.set()
            for watcher in self.watchers:
                watcher()
            for number, run_id in self.store.knocks(self.session_id, self._seen_knock):
                self._seen_knock = number
                self._look(False, [run_id])

    # Claiming

    async def _claim_forever(self) -> None:
        while not self.stopping:
            self._ready.clear()  # before looking, not after: what comes meanwhile is not missed
            began = self.store.now()
            if self.duties.leads:
                await self.duties.see_to_what_is_due()
            await self._claim()
            self._wake_for_timers(began)
            try:
                await asyncio.wait_for(self._ready.wait(), self.settings.poll / 1_000_000)
            except TimeoutError:
                self._known.stale = True

    async def _claim(self) -> None:
        """Claim as long as there is work and room."""
        asked = self._ask()
        while asked is not None:
            runs = await asked
            asked = None
            self._behind = runs.behind
            if self._behind and self._freed:
                self._ready.set()  # what was freed meanwhile may be what they wait for
            if not runs:
                return
            if self.store.overlaps and len(runs) == BATCH:
                asked = self._ask(besides=BATCH)  # the next ones come while these begin
            told = [run.id for run in runs if run.generation > 1 or run.forked_from or run.revision]  # or an operator came first
            histories = self.store.histories(told)
            signals = self.store.signals_of([run.id for run in runs if run.revision])  # else nothing has ever reached it
            for run in runs:
                self.hold(run, histories.get(run.id, []), signals.get(run.id, []))
            await asyncio.sleep(0)
            asked = asked or self._ask()

    def _ask(self, besides: int = 0) -> asyncio.Future[Claimed] | None:
        self._freed = False
        op = self._wanted(besides)
        return None if op is None else self.writer.submit_aside(op) if besides else self.writer.submit(op)

    def _wanted(self, besides: int) -> Claim | None:
        """Return what to ask for now, besides so many runs that are not held yet; None: no room, or nothing to serve."""
        room = min(self.room() - besides, BATCH)
        self._full = room <= 0
        taken = {number: route for number, route in self._known.routes().items() if self.takes(route)}
        if any(self.definitions()[route.workflow].blocking for route in taken.values()):
            room = min(room, self._free_threads() - besides)
        routes = [(number, route.lane) for number, route in taken.items()]
        if room <= 0 or not routes or self.stopping:
            return None
        return Claim(self.session_id, routes, room)

    @property
    def pause(self) -> int:
        """Microseconds between two looks at the retention rules."""
        return self.settings.retain

    def room(self) -> int:
        """Say how many more runs may be held at work; those that wait take no room."""
        if len(self.drivers) < self.settings.concurrency:
            return self.settings.concurrency - len(self.drivers)
        return self.settings.concurrency - sum(not driver.waiting for driver in self.drivers.values())

    def serves(self, route: Route) -> bool:
        """Say whether this worker can go on with runs of that route."""
        definition = self.definitions().get(route.workflow)
        mine = self.settings
        return (
            definition is not None
            and (definition.serves is None or route.version in definition.serves)
            and (mine.lanes is None or route.lane in mine.lanes)
            and (mine.namespace is None or route.namespace == mine.namespace)
            and set(route.capabilities) <= set(mine.capabilities)
        )

    def takes(self, route: Route) -> bool:
        """Say whether this worker can go on with runs of that route now: blocking ones need a thread."""
        return self.serves(route) and (not self.definitions()[route.workflow].blocking or self._free_threads() > 0)

    def _free_threads(self) -> int:
        return self.settings.threads - sum(driver.blocking for driver in self.drivers.values())

    def settle_soon(self) -> None:
        """Settle graphs in the transaction that is about to be: it ends a member."""
        self.settler.soon()

    def lease_for(self, route: Route) -> str | None:
        """Return this session's id if a new run of that route can be born leased to it."""
        if self.stopping or len(self.drivers) >= self.settings.concurrency:
            return None
        return self.session_id if self.takes(route) else None

    def keeps_waiting(self, lane: str) -> bool:
        """Say whether runs of that lane may stay in memory while they wait: not where they would take a limited place."""
        return not self._known.is_limited(lane) and len(self.drivers) < 10 * self.settings.concurrency

    def adopt(self, run: NewRun, created_at: int) -> None:
        """Go on with a run that was born leased to this session."""
        if run.id in self._found:
            return  # it was found first
        route = run.route
        whole = Run(
            id=run.id, namespace=route.namespace, workflow=route.workflow, version=route.version, lane=route.lane,
            capabilities=route.capabilities, status=Status.RUNNING, priority=run.priority, input=run.input, generation=1,
            revision=0, crashes=0, created_at=created_at, key=run.key, deadline=run.deadline, session_id=run.session_id,
            parent_id=run.parent_id, parent_step=run.parent_step, parent_index=run.parent_index, root_id=run.root_id,
            on_parent_end=run.on_parent_end, started_at=created_at, budgets=run.budgets, share=run.share,
        )  # fmt: skip
        self.hold(whole, [], [], fresh=True)

    def adopt_all(self, born: list[tuple[NewRun, int]]) -> None:
        """Go on with several."""
        for run, created_at in born:
            self.adopt(run, created_at)

    def hold(self, run: Run, history: list[Event], signals: list[Signal], *, fresh: bool = False) -> None:
        """Drive a run that this session has leased, from what was read just now: a knock that comes later finds a driver."""
        if run.session_id != self.session_id:
            return  # the session ended meanwhile, and the run with it
        driver = self.drivers[run.id] = Driver(run, self.definitions()[run.workflow], self, signals)
        strand = Strand(driver.live(history, fresh=fresh), self.loop, lambda done: self._let_go(run.id, driver, done))
        self._strands.add(strand)

    def _let_go(self, run_id: str, driver: Driver, strand: Strand) -> None:
        self._strands.discard(strand)
        if self.drivers.get(run_id) is driver:
            del self.drivers[run_id]
        if strand.error is not None:
            log.error("run %s could not be driven on; it will be taken up again", run_id, exc_info=strand.error)
            self.writer.troubled = True
        self._freed = True
        behind = self._behind and self._known.is_limited(driver.run.lane)
        if not driver.finished or driver.blocking or self._full or behind or driver.run.crashes:
            self._ready.set()  # it may be due again before anything else, or some may have had to wait for it

    # Time

    def _wake_for_timers(self, looked_at: int) -> None:
        """Look again when the next timer of a parked run is due, or something that the leader sees to: a deadline, a tick of a
        schedule. In a moment if it was due when we looked, and somebody else is about to see to it."""
        if self._wake is not None:
            self._wake.cancel()
        look = self.store.next_look()
        if self.room() <= 0:
            look.work = None  # whoever makes room makes us look
        if not self.duties.leads:
            look = Look(work=look.work)
        if look.at is not None:
            self._wake = self.alarms.at(look.at if look.at > looked_at else self.store.now() + 1000, self._ready.set)

    async def _beat_forever(self) -> None:
        while True:
            await asyncio.sleep(self.settings.lifetime / 3_000_000)
            await self._beat()
            if self.writer.troubled:
                self._find_unheld()

    async def _beat(self) -> None:
        sure_until = self._lease_from_now()
        alive = await self.writer.submit(Beat(self.session_id, self.settings.lifetime, self._seen_knock))
        if not alive:
            await self._begin_anew()
            return
        self._sure_until = sure_until
        if tuple(sorted(self.definitions())) != self._served:
            await self.writer.submit(OpenSession(self._session()))
            await self._declare()

    async def _begin_anew(self) -> None:
        """This session was taken over while the process hung: all that it held belongs to others now."""
        log.warning("session %s was taken over; its %d runs go on elsewhere", self.session_id, len(self.drivers))
        for driver in list(self.drivers.values()):
            driver.close()
        for strand in list(self._strands):
            strand.cancel()
        await self._open_session()
        self._ready.set()

    # Being sure

    def _lease_from_now(self) -> float:
        """Return until when, by this process's own clock, nobody can take a session over that beats now."""
        return self.loop.time() + 0.8 * self.settings.lifetime / 1_000_000

    def is_sure(self) -> bool:
        """Say whether this session lives, without asking: it has beaten not long ago. A process that was stopped is not sure."""
        return self.loop.time() < self._sure_until

    def doubt(self) -> asyncio.Task[None]:
        """Ask whether this session lives; if it does not, let go of all its runs."""
        self._sure_until = 0.0
        if self._doubt is None or self._doubt.done():
            self._doubt = self.loop.create_task(self._guarded(self._beat))
        return self._doubt

    async def make_sure(self) -> None:
        """Return when it is known that this session lives. If not, whoever waits here for one of its runs is cancelled."""
        await asyncio.shield(self.doubt())

    def _find_unheld(self) -> None:
        """After trouble with the store: go on with what is leased to this session and held by nobody here, because whoever asked
        for the lease was told of the trouble and not of the lease. Seen twice, for the first time it may be on its way."""
        leased = {
            (run_id, generation) for run_id, generation, _ in self.store.held(self.session_id) if run_id not in self.drivers
        }
        for run_id, generation in leased & self._unheld:
            run = self.store.run(run_id)
            if run is not None and run.generation == generation and run.workflow in self.definitions():
                log.warning("run %s was leased to this worker in the middle of some trouble, and goes on", run_id)
                self._found.add(run_id)
                self.hold(run, self.store.history(run_id), self.store.signals(run_id) if run.revision else [])
        self._unheld = leased
        self.writer.troubled = bool(leased)


def _serves(definition: Definition) -> list[str] | None:
    return None if definition.serves is None else sorted(definition.serves)
