"""A worker: a session that claims runs and holds them, one driver each.

It looks when it is told to (a commit in this process, another process's commit, an alarm) and,
slowly, when it is not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.core.budgets.model import BudgetLine
from holdfast.core.codec import Codec
from holdfast.core.events import Event
from holdfast.core.program import Definition
from holdfast.core.runs import NewRun, Route, RunRecord, leased_at_start
from holdfast.core.sessions import Session
from holdfast.core.waits import Signal
from holdfast.engine.execution.execution import RunExecution, notify_all
from holdfast.engine.maintenance import retention as house
from holdfast.engine.maintenance.graphs import GraphResolver
from holdfast.engine.maintenance.webhooks import WebhookDispatcher
from holdfast.engine.runtime.capacity import Capacity
from holdfast.engine.runtime.change_poller import ChangePoller
from holdfast.engine.runtime.eager_task import EagerTasks
from holdfast.engine.runtime.group_commit import ENCRYPTED_SINCE, GroupCommit
from holdfast.engine.runtime.ids import new_id
from holdfast.engine.runtime.inline_task import InlineTask
from holdfast.engine.runtime.long_steps import LongSteps
from holdfast.engine.runtime.news import News
from holdfast.engine.runtime.program_loop import ProgramLoop
from holdfast.engine.runtime.settings import WorkerSettings
from holdfast.engine.runtime.thread_pool import ThreadPool
from holdfast.engine.runtime.timer_queue import TimerHandle, TimerQueue
from holdfast.engine.worker.claimed_runs import Unheld, hold_claimed
from holdfast.engine.worker.leader import Leader, end_session
from holdfast.engine.worker.route_cache import RouteCache
from holdfast.engine.worker.session import session_of
from holdfast.errors import (
    EngineClosed,
    HoldfastError,
    RowDamaged,
    StoreError,
    StoreHalfCopied,
    StoreSealed,
    UsageError,
)
from holdfast.payloads.compose import composer
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.clock import Clock, uptime
from holdfast.store.contract import (
    Claim,
    ClaimedRuns,
    Heartbeat,
    Hints,
    NextDue,
    OpenSession,
    Operation,
    SignalArrived,
    Store,
)

log = logging.getLogger("holdfast")

BATCH = 200  # how many runs are claimed at once
SEALED_PAUSE = 30.0  # seconds between two tries of a duty while the store is sealed
# seconds between two checks that this worker still has the lock by which others see that its
# process lives
KEEP_EVERY = 0.5


class Worker:
    """Claims runs for one session and drives them on one loop."""

    def __init__(
        self,
        store: Store,
        writer: GroupCommit,
        codec: Codec,
        definitions: Callable[[], Mapping[str, Definition]],
        clock: Clock,
        settings: WorkerSettings,
        learn: Callable[[Definition], None],
        sealer: PayloadSealer | None = None,
        program_loop: ProgramLoop | None = None,
    ) -> None:
        self.store, self.writer, self.codec, self.settings = store, writer, codec, settings
        self.definitions, self.clock, self.learn = definitions, clock, learn
        self.sealer = sealer or PayloadSealer(store)
        self.program_loop = program_loop
        self.session_id = ""
        self.stopping = False
        self.linger, self.pause = settings.linger, settings.retain
        self.seen_lines: dict[tuple[str, ...], list[BudgetLine]] = {}
        self.stream_window, self.captures = settings.stream_window / 1_000_000, settings.capture
        self.drivers: dict[str, RunExecution] = {}
        self.capacity = Capacity(
            settings.concurrency,
            settings.threads,
            self.drivers,
            definitions,
            lambda: self._ready.set(),
        )
        self.watchers: list[Callable[[], None]] = []
        """Called when another process has committed."""
        self.declare: Callable[[], list[Operation]] = list
        """Says what the code declares and the store may not know."""
        self.threads = ThreadPool()
        self.news = News()
        self.couriers = WebhookDispatcher(self, settings.poll / 1_000_000)
        self.loop: asyncio.AbstractEventLoop
        self.alarms: TimerQueue
        self.long_steps: LongSteps
        self.hands: EagerTasks
        self._strands: set[InlineTask] = set()
        self._jobs: list[asyncio.Task[None]] = []
        self._ready = asyncio.Event()
        self._bell = ChangePoller(settings.watch, settings.idle_watch)
        self._slot = -1
        self._seen_knock = 0
        self._behind = self._freed = False
        """Some wait for a place in their lane; one was freed since we asked."""
        self._wake: TimerHandle | None = None
        self._known = RouteCache(store)
        self._served: tuple[str, ...] = ()
        self._sure_until = 0.0
        self._doubt: asyncio.Task[None] | None = None
        self._unheld = Unheld(store, writer, self.drivers)
        self.settler = GraphResolver(
            writer,
            composer(self.sealer, codec),
            self.lease_member,
            lambda run, created_at: self.adopt(self.sealer.new_run_opened(run), created_at),
        )
        self.duties = Leader(
            store,
            writer,
            lifetime=settings.lifetime,
            mine=lambda: self.session_id,
            freed=self._ready.set,
            settle=self.settler.look,
        )

    # Starting and stopping

    async def start(self) -> None:
        """Open a session and begin to work."""
        self.loop = asyncio.get_running_loop()
        self.writer.attach(self.loop)
        self.alarms = TimerQueue(self.clock, self.loop)
        self.long_steps = LongSteps(self.alarms)
        self.hands = EagerTasks(self.loop)
        if self.program_loop is not None:
            self.program_loop.attach(self.loop, self.writer)
        self.writer.listeners += [self._hinted, self.news.hinted]
        self.writer.closing.append(self.settler.last_word)
        self.writer.capacity = self.capacity
        self.watchers.append(self.news.changed)
        self.news.watched = True
        self._slot = self.store.take_slot()
        try:
            await self._open_session()
            await self._declare()
            await self.duties.look_after_all()
            await self.duties.look()
            await house.unlock(self)
        except (
            BaseException
        ):  # nobody works here: others must not take this session for a living one
            self._forget()
            raise
        jobs = (
            self._claim_forever,
            self._watch_forever,
            self._beat_forever,
            self.duties.forever,
            self.settler.forever,
            self.couriers.forever,
            partial(house.run_forever, self),
        )
        self._jobs = [self.loop.create_task(self._guarded(job)) for job in jobs]

    async def stop(self, *, grace: float | None = None) -> None:
        """Claim nothing more, let steps at work end, park or hand back what is held, and end the
        session."""
        self.stopping = True
        for driver in list(self.drivers.values()):
            driver.notify()
        if self._strands:
            ends = [strand.over for strand in self._strands]
            await asyncio.wait(ends, timeout=self.settings.grace if grace is None else grace)
        await self.kill()

    def is_shut_out(self, error: Exception) -> bool:
        """Return whether the database was encrypted after it was opened here without keys: then
        this worker lets go of all."""
        shut_out = self.sealer.cipher is None and isinstance(error, ENCRYPTED_SINCE)
        if shut_out and not self.stopping:
            self.stopping = True
            log.error(
                "this worker stops working: the database was encrypted while it was open here: %s",
                error,
            )
            for driver in list(self.drivers.values()):
                driver.notify()
        return shut_out

    async def kill(self) -> None:
        """Stop at once; what was held is free for others."""
        self.stopping = True
        jobs = [*self._jobs, self._doubt] if self._doubt is not None else self._jobs
        for job in jobs:
            job.cancel()
        self.couriers.close()
        if self.program_loop is not None:
            self.program_loop.abandoned = True
        for driver in list(self.drivers.values()):
            driver.close()
        for strand in list(self._strands):
            strand.cancel()
        await asyncio.gather(
            *jobs, *(strand.over for strand in self._strands), return_exceptions=True
        )
        try:
            if self.session_id:
                await end_session(self.writer, self.session_id, crashed=False)
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
        if self.writer.capacity is self.capacity:
            self.writer.capacity = None
        self.store.free_slot(self._slot)
        self.alarms.close()
        self.hands.close()
        self.threads.close()
        if self.program_loop is not None:
            self.program_loop.close()

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
        for answer in await asyncio.gather(
            *map(self.writer.submit, declared), return_exceptions=True
        ):
            if isinstance(answer, UsageError | RowDamaged) and not isinstance(answer, EngineClosed):
                log.error("what the code declares is not used: %s", answer)
            elif isinstance(answer, BaseException):
                raise answer

    def _session(self) -> Session:
        definitions = self.definitions()
        self._served = tuple(sorted(definitions))
        return session_of(self.session_id, self._slot, self.settings, definitions, self.store.now())

    async def _guarded(self, job: Callable[[], Any]) -> None:
        """Keep a duty going whatever happens to it; trouble is logged and tried again."""
        while True:
            try:
                await job()
                return
            except EngineClosed:
                return
            except (StoreSealed, StoreHalfCopied) as error:
                log.error("this worker does nothing: %s", error)
                await asyncio.sleep(SEALED_PAUSE)
            except (StoreError, RowDamaged) as error:
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
        if not (
            hints.ready or hints.runs or hints.delivered or hints.subscriptions or hints.graphs
        ):
            return
        with suppress(RuntimeError):  # the loop is closed: nobody is here to look
            for wanted, look in (
                (hints.graphs, self.settler.look),
                (hints.subscriptions, self.couriers.look),
            ):
                if wanted:
                    self.loop.call_soon_threadsafe(look)
            look = partial(self._look, hints.ready, list(hints.runs), hints.delivered)
            if not self.writer.call_after(look):
                self.loop.call_soon_threadsafe(look)

    def _look(
        self, ready: bool, runs: Iterable[str], delivered: Iterable[SignalArrived] = ()
    ) -> None:
        if ready:
            self._ready.set()
        notify_all(
            self.store,
            [driver for run_id in runs if (driver := self.drivers.get(run_id)) is not None],
        )
        for one in delivered:
            if (driver := self.drivers.get(one.run_id)) is not None:
                driver.hear(one)

    def _heard(self, run_id: str | None) -> None:
        """Another process touched a run that is held here, or something else. May come from any
        thread."""
        with suppress(RuntimeError):  # as above
            self.loop.call_soon_threadsafe(
                self._bell.ring if run_id is None else partial(self._look, False, [run_id])
            )

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
                async with asyncio.timeout(self.settings.poll / 1_000_000):
                    await self._ready.wait()
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
                asked = self._ask(aside=True)  # the next ones come while these begin
            await hold_claimed(self.store, self.writer, runs, self.hold)
            await asyncio.sleep(0)
            asked = asked or self._ask()

    def _ask(self, *, aside: bool = False) -> asyncio.Future[ClaimedRuns] | None:
        self._freed = False
        op = self._wanted()
        if op is None:
            return None
        return self.writer.submit_aside(op) if aside else self.writer.submit(op)

    def _wanted(self) -> Claim | None:
        """Return what to ask for now; None: no room, or nothing to serve."""
        room = min(self.capacity.room(), BATCH)
        self.capacity.is_full = room <= 0
        taken = {
            number: route for number, route in self._known.routes().items() if self.takes(route)
        }
        self.capacity.claims_blocking = any(
            self.definitions()[route.workflow].blocking for route in taken.values()
        )
        if self.capacity.claims_blocking:
            room = min(room, self.capacity.free_threads())
        routes = [(number, route.lane) for number, route in taken.items()]
        if room <= 0 or not routes or self.stopping:
            return None
        return Claim(self.session_id, routes, room)

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
        """Say whether this worker can go on with runs of that route now: blocking ones need a
        thread."""
        return self.serves(route) and (
            not self.definitions()[route.workflow].blocking or self.capacity.free_threads() > 0
        )

    async def ask(self, op: Operation) -> Any:
        """Commit a transition for a coroutine of user code, on whichever loop that runs, and return
        the answer."""
        elsewhere, submit = self.program_loop, self.writer.submit
        return await (submit(op) if elsewhere is None else elsewhere.ask(partial(submit, op)))

    def settle_soon(self) -> None:
        """Settle graphs in the transaction that is about to be: it ends a member."""
        self.settler.soon()

    def lease_for(self, route: Route) -> str | None:
        """Return this session's id if a new run of that route can be born leased to it: if a place
        is free when it is written."""
        if self.stopping or not self.capacity.has_birthplace():
            return None
        return self.session_id if self.takes(route) else None

    def lease_member(self, route: Route) -> str | None:
        """The same for a member of a graph, which is born inside a transaction."""
        return self.capacity.lease_member(route, self.lease_for)

    def may_reach(self, run_id: str) -> bool:
        """Return whether runs that are held here may signal and cancel that run: not out of the
        namespace that is served."""
        if self.settings.namespace is None:
            return True
        run = self.store.run(run_id)
        return (
            run is None or run.namespace == self.settings.namespace
        )  # a child may be created by the same commit

    def keeps_waiting(self, lane: str) -> bool:
        """Say whether runs of that lane may stay in memory while they wait: not where they would
        take a limited place."""
        return (
            not self._known.is_limited(lane) and len(self.drivers) < 10 * self.settings.concurrency
        )

    def adopt(self, run: NewRun, created_at: int) -> None:
        """Go on with a run that was born leased to this session."""
        if run.id in self._unheld.found:
            self.capacity.arrived(run.id)
        else:
            self.hold(leased_at_start(run, created_at), [], [], fresh=True)

    def adopt_all(self, born: list[tuple[NewRun, int]]) -> None:
        """Go on with several."""
        for run, created_at in born:
            self.adopt(run, created_at)

    def hold(
        self, run: RunRecord, history: list[Event], signals: list[Signal], *, fresh: bool = False
    ) -> None:
        """Drive a run that this session has leased, from what was read just now: a knock that comes
        later finds a driver."""
        if run.session_id != self.session_id:  # the session ended meanwhile, and the run with it
            return self.capacity.arrived(run.id)
        driver = self.drivers[run.id] = RunExecution(
            run, self.definitions()[run.workflow], self, signals
        )
        self.capacity.arrived(run.id)
        strand = InlineTask(
            driver.live(history, fresh=fresh),
            self.loop,
            lambda done: self._let_go(run.id, driver, done),
        )
        self._strands.add(strand)

    def _let_go(self, run_id: str, driver: RunExecution, strand: InlineTask) -> None:
        self._strands.discard(strand)
        if self.drivers.get(run_id) is driver:
            del self.drivers[run_id]
        self.capacity.goes_on(driver)
        if strand.error is not None:
            log.error(
                "run %s could not be driven on; it will be taken up again",
                run_id,
                exc_info=strand.error,
            )
            self.writer.troubled = True
        self._freed = True
        behind = self._behind and self._known.is_limited(driver.run.lane)
        if (
            not driver.finished
            or driver.blocking
            or self.capacity.is_full
            or behind
            or driver.run.crashes
        ):
            # it may be due again before anything else, or some may have had to wait for it
            self._ready.set()

    # Time

    def _wake_for_timers(self, looked_at: int) -> None:
        """Look again when the next timer of a parked run is due, or something that the leader sees
        to: a deadline, a tick of a schedule. In a moment if it was due when we looked, and somebody
        else is about to see to it."""
        if self._wake is not None:
            self._wake.cancel()
        look = self.store.next_look()
        if self.capacity.room() <= 0:
            look.work = None  # whoever makes room makes us look
        if not self.duties.leads:
            look = NextDue(work=look.work)
        if look.at is not None:
            self._wake = self.alarms.at(
                look.at if look.at > looked_at else self.store.now() + 1000, self._ready.set
            )

    async def _beat_forever(self) -> None:
        interval = self.settings.lifetime / 3_000_000
        due = self.loop.time() + interval
        while True:
            await asyncio.sleep(min(interval, KEEP_EVERY))
            if self.store.keep_slot(self._slot) and self.loop.time() < due:
                continue  # otherwise only heartbeats show that this process lives
            due = self.loop.time() + interval
            await self._beat()
            if self.capacity.forget_lost() or self.writer.troubled:
                self._unheld.find(self.session_id, self.definitions(), self.hold)

    async def _beat(self) -> None:
        sure_until = self._lease_from_now()
        session_id = self.session_id
        alive = await self.writer.submit(
            Heartbeat(session_id, self.settings.lifetime, self._seen_knock)
        )
        if session_id != self.session_id:
            return  # another beat has found out, and opened the next session
        if not alive:
            await self._begin_anew()
            return
        self._sure_until = sure_until
        if tuple(sorted(self.definitions())) != self._served:
            await self.writer.submit(OpenSession(self._session()))
            await self._declare()

    async def _begin_anew(self) -> None:
        """This session was taken over while the process hung: all that it held belongs to others
        now."""
        log.warning(
            "session %s was taken over; its %d runs go on elsewhere",
            self.session_id,
            len(self.drivers),
        )
        for driver in list(self.drivers.values()):
            driver.close()
        for strand in list(self._strands):
            strand.cancel()
        await self._open_session()
        self._ready.set()

    # Being sure

    def _lease_from_now(self) -> float:
        """Return until when, by this process's own clock, nobody can take a session over that beats
        now."""
        return uptime() + 0.8 * self.settings.lifetime / 1_000_000

    def is_sure(self) -> bool:
        """Say whether this session lives, without asking: it has beaten not long ago. A process
        that was stopped is not sure."""
        return uptime() < self._sure_until

    def is_abandoned(self) -> bool:
        return any(
            job.cancelling() for job in self._jobs
        )  # the loop cancels the tasks of steps with them

    def doubt(self) -> asyncio.Task[None]:
        """Ask whether this session lives; if it does not, let go of all its runs."""
        self._sure_until = 0.0
        if self._doubt is None or self._doubt.done():
            self._doubt = self.loop.create_task(self._guarded(self._beat))
        return self._doubt

    async def make_sure(self) -> None:
        """Return when it is known that this session lives; else what waits here is cancelled.
        Raises EngineClosed."""
        while (
            not self.is_sure()
        ):  # it may be doubted again, or the process stopped again, before this goes on
            self.writer.refuse_when_closed()
            await asyncio.shield(self.doubt())
