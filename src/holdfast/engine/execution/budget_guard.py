"""What a held run spends: the purses of its steps, what its code takes from budgets, and what
happens when there is no room."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach, BudgetLine, SpendEntry
from holdfast.core.commands import Spend
from holdfast.core.events import Event, EventKind
from holdfast.core.status import Status
from holdfast.engine.execution.outcomes import without_room
from holdfast.engine.execution.pending import PendingSpend, PendingStep
from holdfast.engine.execution.signal_buffer import Listening
from holdfast.engine.runtime.error_data import error_data
from holdfast.errors import HoldfastError, StoreError, UnknownDimension
from holdfast.store.contract import (
    Advance,
    BudgetRefused,
    BudgetSpent,
    ReserveBudget,
    SpendRunBudget,
)

log = logging.getLogger("holdfast")

LOOK_AGAIN = 1_000_000
"""Microseconds after which a branch that has no room looks again while others of its run are at
work."""

UNDO = "undo "


def _pauses() -> Iterator[float]:
    """Yield the seconds between the tries of a write: longer and longer, without end."""
    pause = 0.05
    while True:
        yield pause
        pause = min(pause * 2, 5.0)


def _is_on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Reservation(msgspec.Struct):
    """Something set aside by a step, and how much of it is left."""

    left: dict[str, int]


class AttemptSpending:
    """The purse of one attempt. What it has spent is not counted before the attempt has ended;
    until then it stays set aside."""

    __slots__ = (
        "_granted",
        "_held",
        "_open",
        "_step",
        "_transacts",
        "_under",
        "reserved",
        "spendings",
    )

    def __init__(
        self, held: Spender, step: str, under: str | None, *, transacts: bool = False
    ) -> None:
        self._held, self._step, self._under, self._transacts = held, step, under, transacts
        self._open: tuple[Reservation, ...] = ()
        self._granted: dict[str, int] = {}
        self.spendings: list[SpendEntry] = []
        self.reserved = False

    def spend(self, amounts: Mapping[str, int], key: str | None, *, fact: bool) -> None:
        """Note what is spent. When it looks as if there were no room, the store is asked at once;
        else when the attempt has completed."""
        held = self._held
        held.check_dimensions(amounts)
        fact = fact or not held.run.budgets or held.spends_freely(self._step)
        if (
            not fact
            and self._under is None
            and not self._transacts
            and not held.is_on_program_loop()
        ):
            # The program's loop never waits for the store: there the commit of the attempt decides.
            self._make_sure(amounts)
        plain = next((one for one in self.spendings if one.key is None and one.fact == fact), None)
        if key is not None or plain is None:
            self.spendings.append(SpendEntry(dict(amounts), key, self._under, fact))
        else:
            plain.amounts = budget_rules.added((plain.amounts, amounts))
        for aside in self._open[-1:]:
            for name, amount in amounts.items():
                aside.left[name] = max(aside.left.get(name, 0) - amount, 0)

    def _make_sure(self, amounts: Mapping[str, int]) -> None:
        """Set aside what is about to be spent, if that is more than what is known to be there."""
        asked = budget_rules.added((*(one.amounts for one in self.spendings), amounts))
        more = {name: amount - self._granted.get(name, 0) for name, amount in asked.items()}
        if self._held.seems_short(more):
            covered = dict(amounts)
            for aside in self._open[-1:]:
                covered = {
                    name: max(amount - aside.left.get(name, 0), 0)
                    for name, amount in amounts.items()
                }
            request = self._request(covered)
            if request is not None:
                with suppress(
                    StoreError
                ):  # it is asked again when the attempt has completed, for as long as it takes
                    self._grant(request, self._held.host.writer.call(request))
                    self._held.learn_lines()  # there was room after all

    def is_empty(self) -> bool:
        """Return whether the attempt has neither spent nor set aside anything."""
        return not self.spendings and not self.reserved

    def counted(self) -> frozenset[str]:
        """Return the dimensions that the budgets of the run count."""
        return self._held.counted_dimensions()

    def reserve(self, amounts: Mapping[str, int]) -> Reservation | None:
        """Set so much aside."""
        request = self._request(amounts)
        return None if request is None else self._answered(amounts, request, self._call(request))

    async def reserve_aio(self, amounts: Mapping[str, int]) -> Reservation | None:
        """The same, in the next commit of the loop."""
        request = self._request(amounts)
        return (
            None
            if request is None
            else self._answered(amounts, request, await self._submit(request))
        )

    def _call(self, request: ReserveBudget) -> BudgetSpent | BudgetRefused:
        """Write from the thread of a step, and try again while the store is in trouble, like every
        other write of a run."""
        for pause in _pauses():
            try:
                answer: BudgetSpent | BudgetRefused = self._held.host.writer.call(request)
                return answer
            except StoreError as error:
                if _is_on_a_loop():
                    raise  # to wait here would hold up all other runs
                log.warning(
                    "run %s cannot set anything aside now, will try again: %s",
                    self._held.run.id,
                    error,
                )
            time.sleep(pause)
        raise AssertionError("it is tried without end")

    async def _submit(self, request: ReserveBudget) -> BudgetSpent | BudgetRefused:
        """The same for a coroutine, on whichever loop it runs."""
        for pause in _pauses():
            try:
                answer: BudgetSpent | BudgetRefused = await self._held.host.ask(request)
                return answer
            except StoreError as error:
                log.warning(
                    "run %s cannot set anything aside now, will try again: %s",
                    self._held.run.id,
                    error,
                )
            await asyncio.sleep(pause)
        raise AssertionError("it is tried without end")

    def release(self, held: object) -> None:
        """Set it aside no more. The store hears of it when something else is set aside, or the
        attempt ends."""
        if isinstance(held, Reservation) and held in self._open:
            self._open = tuple(one for one in self._open if one is not held)

    def take(self) -> list[SpendEntry]:
        """Return what was spent and is not counted yet; from now on it is somebody else's
        business."""
        taken, self.spendings = self.spendings, []
        return taken

    def drop(self) -> None:
        """The attempt has not completed: what it wanted to spend is not spent. Facts are."""
        self.spendings = [one for one in self.spendings if one.fact]

    @property
    def is_plain(self) -> bool:
        """Whether nothing was set aside for what it wants."""
        return not self.reserved and self._under is None

    @property
    def asks(self) -> bool:
        """Whether it wants something that the budgets may not have."""
        return bool(self.spendings) and any(not one.fact for one in self.spendings)

    def _request(self, amounts: Mapping[str, int]) -> ReserveBudget | None:
        held = self._held
        held.check_dimensions(amounts)
        if not held.run.budgets:
            return None
        wanted = budget_rules.added(
            (
                amounts,
                *(one.amounts for one in self.spendings),
                *(aside.left for aside in self._open),
            )
        )
        self.reserved = True
        held.asides.add(self._step)
        return ReserveBudget(
            run_id=held.run.id,
            generation=held.run.generation,
            budgets=held.run.budgets,
            key=self._step,
            amounts=wanted,
            under=self._under,
            force=held.spends_freely(self._step),
        )

    def _answered(
        self,
        amounts: Mapping[str, int],
        request: ReserveBudget,
        answer: BudgetSpent | BudgetRefused,
    ) -> Reservation:
        self._grant(request, answer)
        aside = Reservation(dict(amounts))
        self._open = (*self._open, aside)
        return aside

    def _grant(self, request: ReserveBudget, answer: BudgetSpent | BudgetRefused) -> None:
        if isinstance(answer, BudgetRefused):
            raise budget_rules.exceeded(answer.breach, request.amounts)
        self._granted = request.amounts


class Spender(Listening):
    """The part of a held run that has to do with money."""

    def new_purse(
        self, step: str, under: str | None = None, *, transacts: bool = False
    ) -> AttemptSpending:
        """Return the purse for an attempt at a step."""
        return AttemptSpending(self, step, under, transacts=transacts)

    def check_dimensions(self, amounts: Mapping[str, int]) -> None:
        """Refuse what none of the run's budgets counts; they are looked up once, and again before
        anything is refused."""
        if not self.run.budgets or self._dimensions.issuperset(amounts):
            return
        if self.is_on_program_loop():
            self.host.loop.call_soon_threadsafe(
                self.learn_lines
            )  # the next attempt knows, should this one be refused
        else:
            self.learn_lines()
        budget_rules.check_dimensions(amounts, self._dimensions)

    def is_on_program_loop(self) -> bool:
        """Return whether this thread is the one of the program's loop, where nothing may be
        read."""
        elsewhere = self.host.program_loop
        return elsewhere is not None and elsewhere.thread == threading.get_ident()

    def learn_lines(self) -> None:
        """Look how the budgets stand."""
        self._lines = self.host.store.allowances(self.run.budgets)
        self._dimensions = frozenset(line.dimension for line in self._lines)

    def _see_lines(self) -> list[BudgetLine]:
        """Look how the budgets stand, together with all who look in this turn of the loop."""
        host, names = self.host, tuple(self.run.budgets)
        found = host.seen_lines.get(names)
        if found is None:
            if not host.seen_lines:
                host.loop.call_soon(host.seen_lines.clear)
            found = host.seen_lines[names] = host.store.allowances(names)
        self._lines = [msgspec.structs.replace(line) for line in found]
        self._dimensions = frozenset(line.dimension for line in found)
        return self._lines

    def seems_short(self, more: Mapping[str, int]) -> bool:
        """Say whether there is no room for so much, as far as is known here: others spend, too."""
        now = self.now()
        for line in self._lines:
            amount = more.get(line.dimension, 0)
            if (
                line.hard is not None
                and amount > 0
                and line.used + line.reserved + amount > line.hard
            ):
                return not budget_rules.is_due(line, now)
        return False

    def note_lines(self, spendings: Iterable[SpendEntry]) -> None:
        """So much was counted: what is known of the budgets follows."""
        for spending in spendings:
            for line in self._lines:
                line.used += spending.amounts.get(line.dimension, 0)

    def counted_dimensions(self) -> frozenset[str]:
        """Return what the run's budgets count, as far as it was looked up; it is looked up once."""
        if self.run.budgets and not self._dimensions and not self.is_on_program_loop():
            self.learn_lines()
        return self._dimensions if self.run.budgets else frozenset()

    def spends_freely(self, step: str) -> bool:
        """Say whether no limit holds this step up: what is undone must be undone."""
        return self._cancelling or step.rsplit("/", 1)[-1].startswith(UNDO)

    def book(self, step: str, purse: AttemptSpending | None) -> None:
        """An attempt is over: count what it spent, and give back what it set aside, with the next
        commit."""
        if purse is None:
            return
        if purse.spendings:
            purse.drop()
            self.batch.spends.extend(purse.take())
        if purse.reserved:
            self.batch.settles.append(step)
            self.asides.discard(step)

    def settling(self, paid: Sequence[tuple[Event, AttemptSpending]]) -> Advance:
        """Return the write by which attempts that have completed pay, all of them or none."""
        op = Advance(run_id=self.run.id, generation=self.run.generation, budgets=self.run.budgets)
        op.events, op.spends = (
            [event for event, _ in paid],
            [one for _, purse in paid for one in purse.spendings],
        )
        op.settles = [event.step or "" for event, purse in paid if purse.reserved]
        return op

    def unpaid(self, event: Event, purse: AttemptSpending, breach: Breach) -> Event:
        """There was no room for what this attempt wanted to spend: it has not completed."""
        wanted = budget_rules.added(one.amounts for one in purse.spendings if not one.fact)
        return without_room(
            event.step or "",
            budget_rules.exceeded(breach, wanted),
            breach,
            event.attempt,
            event.started_at,
        )

    def note_breach(self, breach: Breach | None) -> None:
        """A hard limit is passed: no new step begins."""
        if breach is not None:
            self._stop_for(breach)

    def _stop_for(self, breach: Breach | None) -> None:
        self.breach = breach
        if self._program is not None:
            self._program.held_up = breach is not None

    def look_at_budgets(self) -> None:
        """See, when the run is taken up, whether it may go on."""
        if self.run.budgets:
            store = self.host.store
            lines = self._see_lines()
            if any(line.hard is not None and line.used > line.hard for line in lines):
                known = {
                    name: found
                    for name in self.run.budgets
                    if (found := store.budget(name)) is not None
                }
                self._stop_for(budget_rules.excess(lines, known, self.now()))

    def hold_up(
        self, launches: Sequence[PendingStep | PendingSpend]
    ) -> list[PendingStep | PendingSpend]:
        """Return what may begin: all of it, unless a limit is passed. The rest waits for room,
        fails, or ends with its run."""
        breach = self.breach
        if breach is None:
            return list(launches)
        free = [want for want in launches if self.spends_freely(want.command.id)]
        stopped = [want for want in launches if want not in free]
        for want in stopped:
            if breach.on_breach == budget_rules.FAIL and isinstance(want, PendingStep):
                self.ended(want.command.id, None, budget_rules.exceeded(breach, {}), self.now())
            elif not isinstance(want, PendingStep):
                free.append(want)  # it asks the store, which knows
            else:
                self.block(want, breach, {})
        return free

    def block(
        self, want: PendingStep | PendingSpend, breach: Breach, demand: Mapping[str, int]
    ) -> None:
        """There is no room for this: wait until there is, or ask to be cancelled."""
        want.blocked, want.demand = breach, dict(demand)
        if breach.on_breach == budget_rules.CANCEL and not self._cancelling:
            self.batch.cancels.append((self.run.id, f"the budget {breach.budget} is spent"))
        self.due_at(self.now() + LOOK_AGAIN)

    def block_step(self, want: PendingStep, event: Event) -> None:
        """An attempt found no room."""
        told = msgspec.json.decode(event.data or b"{}")
        want.task = None
        self.block(want, msgspec.convert(told["breach"], Breach), told["wanted"])

    def park_blocked(self, op: Advance) -> None:
        """A run that has no room for something is blocked, and held by nobody."""
        blocked = [
            want.demand
            for want in self.wants.values()
            if isinstance(want, PendingStep | PendingSpend) and want.blocked
        ]
        if blocked and not self._cancelling:
            op.status, op.keep, op.demands, op.budgets = (
                Status.BLOCKED,
                False,
                blocked,
                self.run.budgets,
            )

    def why_stopped(self) -> str:
        """Say why the run was asked to stop."""
        if self._stopped_by:
            return self._stopped_by
        run = self.host.store.run(self.run.id)
        return (run.cancel_reason if run is not None else None) or "cancelled"

    def unblock(self) -> None:
        """Something has changed: try again whatever had no room."""
        blocked = [
            want
            for want in self.wants.values()
            if isinstance(want, PendingStep | PendingSpend) and want.blocked is not None
        ]
        if blocked:
            self._stop_for(None)
            self.host.seen_lines.clear()
            self.look_at_budgets()
        for want in blocked:
            want.blocked = None
            self.launches.append(want)

    def at_work(self) -> Status:
        """Return how a run stands that does not wait."""
        return Status.CANCELLING if self._cancelling else Status.RUNNING

    def payment(self, want: PendingSpend, seq: int) -> SpendRunBudget | ReserveBudget:
        """Return the write by which the code's own wish is granted, or not."""
        command, now = want.command, self.now()
        data = msgspec.json.encode(
            {name: budget_rules.show(amount) for name, amount in command.amounts.items()}
        )
        whose: dict[str, Any] = {
            "run_id": self.run.id,
            "generation": self.run.generation,
            "budgets": self.run.budgets,
        }
        force = self.spends_freely(command.id)
        if isinstance(command, Spend):
            force = force or command.fact
            event = Event(EventKind.BUDGET_SPENT, command.id, data, seq=seq, at=now)
            return SpendRunBudget(
                **whose,
                amounts=command.amounts,
                event=event,
                key=command.key,
                under=command.under,
                force=force,
            )
        self.lasting = True
        event = Event(EventKind.BUDGET_RESERVED, command.id, data, seq=seq, at=now)
        return ReserveBudget(
            **whose,
            key=command.id,
            amounts=command.amounts,
            event=event,
            under=command.under,
            force=force,
        )

    def uncounted(self, want: PendingSpend) -> Event | None:
        """Say that the code wants what none of the run's budgets counts, if so: nothing is taken,
        and it hears of it."""
        try:
            self.check_dimensions(want.command.amounts)
        except UnknownDimension as error:
            return self._denied(want, error)
        return None

    def _denied(self, want: PendingSpend, error: HoldfastError) -> Event:
        kind = (
            EventKind.BUDGET_SPENT if isinstance(want.command, Spend) else EventKind.BUDGET_RESERVED
        )
        return Event(kind, want.command.id, error=error_data(error), at=self.now())

    def refused(self, want: PendingSpend, breach: Breach) -> Event | None:
        """There is no room for what the code wants: wait, or let it know."""
        if breach.on_breach != budget_rules.FAIL:
            self.block(want, breach, want.command.amounts)
            return None
        return self._denied(want, budget_rules.exceeded(breach, want.command.amounts))
