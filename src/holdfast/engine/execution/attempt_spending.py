"""The spending of one attempt at a step from the budgets of its run.

The amounts are counted when the attempt ends. Until then they are reserved only if the attempt
reserves them, or if the budgets seem to have no room left.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Protocol

import msgspec

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import SpendEntry
from holdfast.core.commands import RunStep
from holdfast.engine.execution.state import RunState
from holdfast.engine.runtime.context import WorkerContext
from holdfast.engine.runtime.log_records import of_run
from holdfast.errors import StoreError
from holdfast.store.budgets.operations import BudgetRefused, BudgetSpent, ReserveBudget

log = logging.getLogger("holdfast")


def _pauses() -> Iterator[float]:
    """Yield the seconds between the tries of a write: doubled each time, up to five, endlessly."""
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


class SpendingGuard(Protocol):
    """What an attempt needs to know of the budgets of its run."""

    state: RunState
    context: WorkerContext
    reserved_steps: set[str]

    @property
    def budgets(self) -> tuple[str, ...]:
        """The names of the budgets that the run draws on."""

    def check_dimensions(self, amounts: Mapping[str, int]) -> None:
        """Raise UnknownDimension for a dimension that none of the budgets counts."""

    def counted_dimensions(self) -> frozenset[str]:
        """Return the dimensions that the budgets count."""

    def spends_freely(self, *, is_compensation: bool) -> bool:
        """Return whether no limit holds this step up."""

    def is_on_program_loop(self) -> bool:
        """Return whether this thread must not read the store."""

    def seems_short(self, more: Mapping[str, int]) -> bool:
        """Return whether the budgets seem to have no room for so much."""

    def learn_lines(self) -> None:
        """Read the lines of the budgets."""


class Reservation(msgspec.Struct):
    """Amounts that a step has reserved, and how much of them is left."""

    left: dict[str, int]


class AttemptSpending:
    """The spending of one attempt; it implements ``SpendingSink``."""

    __slots__ = (
        "_command",
        "_granted",
        "_guard",
        "_open",
        "_transacts",
        "entries",
        "reserved",
        "store_error",
    )

    def __init__(self, guard: SpendingGuard, command: RunStep, transacts: bool) -> None:
        self._guard: SpendingGuard = guard
        self._command: RunStep = command
        self._transacts: bool = transacts
        self._open: tuple[Reservation, ...] = ()
        self._granted: dict[str, int] = {}
        self.entries: list[SpendEntry] = []
        self.reserved: bool = False
        self.store_error: StoreError | None = None
        """The error of the store that a reservation on a loop has raised in the step."""

    def _is_free(self) -> bool:
        return self._guard.spends_freely(is_compensation=self._command.is_compensation)

    def spend(self, amounts: Mapping[str, int], key: str | None, *, fact: bool) -> None:
        """Note an amount. If the budgets seem to have no room for it, ask the store at once;
        otherwise the commit of the attempt decides."""
        guard = self._guard
        guard.check_dimensions(amounts)
        fact = fact or not guard.budgets or self._is_free()
        may_ask = self._command.under is None and not self._transacts
        # The program's loop never waits for the store: there the commit of the attempt decides.
        if not fact and may_ask and not guard.is_on_program_loop():
            self._ensure_room(amounts)
        plain = next(
            (entry for entry in self.entries if entry.key is None and entry.fact == fact), None
        )
        if key is not None or plain is None:
            self.entries.append(SpendEntry(dict(amounts), key, self._command.under, fact))
        else:
            plain.amounts = budget_rules.sum_amounts((plain.amounts, amounts))
        for reservation in self._open[-1:]:
            for name, amount in amounts.items():
                reservation.left[name] = max(reservation.left.get(name, 0) - amount, 0)

    def _ensure_room(self, amounts: Mapping[str, int]) -> None:
        """Reserve the amounts, if they are more than the room that is known here."""
        total = budget_rules.sum_amounts((*(entry.amounts for entry in self.entries), amounts))
        more = {name: amount - self._granted.get(name, 0) for name, amount in total.items()}
        if not self._guard.seems_short(more):
            return
        uncovered = dict(amounts)
        for reservation in self._open[-1:]:
            uncovered = {
                name: max(amount - reservation.left.get(name, 0), 0)
                for name, amount in amounts.items()
            }
        request = self._request(uncovered)
        if request is not None:
            # On a StoreError the commit of the attempt asks again, for as long as it takes.
            with suppress(StoreError):
                self._grant(request, self._guard.context.writer.call(request))
                self._guard.learn_lines()  # there is room: the known lines were outdated

    def counted(self) -> frozenset[str]:
        """Return the dimensions that the budgets of the run count."""
        return self._guard.counted_dimensions()

    def reserve(self, amounts: Mapping[str, int]) -> Reservation | None:
        """Reserve the amounts, from the thread of a step. Raises BudgetExceeded."""
        request = self._request(amounts)
        if request is None:
            return None
        return self._reserved(amounts, request, self._call(request))

    async def reserve_aio(self, amounts: Mapping[str, int]) -> Reservation | None:
        """Reserve the amounts with the next commit of the loop. Raises BudgetExceeded."""
        request = self._request(amounts)
        if request is None:
            return None
        return self._reserved(amounts, request, await self._submit(request))

    def _call(self, request: ReserveBudget) -> BudgetSpent | BudgetRefused:
        """Write from the thread of a step; try again while the store fails, like every other write
        of a run."""
        for pause in _pauses():
            try:
                answer: BudgetSpent | BudgetRefused = self._guard.context.writer.call(request)
                return answer
            except StoreError as error:
                self._log_failure(error)
                if _is_on_a_loop():
                    # Waiting here would hold up all other runs: the attempt is repeated instead.
                    self._note_failure(error)
                    raise
            time.sleep(pause)
        raise AssertionError("the pauses never end")

    async def _submit(self, request: ReserveBudget) -> BudgetSpent | BudgetRefused:
        """Write for a coroutine, on whichever loop it runs; try again while the store fails."""
        for pause in _pauses():
            try:
                answer: BudgetSpent | BudgetRefused = await self._guard.context.ask(request)
                return answer
            except StoreError as error:
                self._log_failure(error)
            await asyncio.sleep(pause)
        raise AssertionError("the pauses never end")

    def _note_failure(self, error: StoreError) -> None:
        """Remember an error that ends the attempt, which has reserved nothing if this was its first
        reservation."""
        self.store_error = error
        if not self._granted:
            self.reserved = False
            self._guard.reserved_steps.discard(self._command.id)

    def _log_failure(self, error: StoreError) -> None:
        run = self._guard.state.run
        log.warning(
            "run %s cannot reserve amounts now, will try again: %s",
            run.id,
            error,
            extra=of_run(run, self._command.id),
        )

    def release(self, reservation: object) -> None:
        """Give up a reservation. The store learns of it with the next reservation, or when the
        attempt ends."""
        if isinstance(reservation, Reservation) and reservation in self._open:
            self._open = tuple(entry for entry in self._open if entry is not reservation)

    def take(self) -> list[SpendEntry]:
        """Return the entries that are not counted yet; the caller commits them."""
        taken = self.entries
        self.entries = []
        return taken

    def drop(self) -> None:
        """Forget the entries of an attempt that has not completed; facts stay."""
        self.entries = [entry for entry in self.entries if entry.fact]

    @property
    def is_plain(self) -> bool:
        """Whether the attempt has reserved nothing."""
        return not self.reserved and self._command.under is None

    @property
    def needs_room(self) -> bool:
        """Whether the attempt spends amounts that the budgets may refuse."""
        return bool(self.entries) and any(not entry.fact for entry in self.entries)

    def _request(self, amounts: Mapping[str, int]) -> ReserveBudget | None:
        guard = self._guard
        guard.check_dimensions(amounts)
        if not guard.budgets:
            return None
        spent = (entry.amounts for entry in self.entries)
        reserved = (reservation.left for reservation in self._open)
        self.reserved = True
        guard.reserved_steps.add(self._command.id)
        return ReserveBudget(
            run_id=guard.state.run.id,
            generation=guard.state.run.generation,
            budgets=guard.budgets,
            key=self._command.id,
            amounts=budget_rules.sum_amounts((amounts, *spent, *reserved)),
            under=self._command.under,
            force=self._is_free(),
        )

    def _reserved(
        self,
        amounts: Mapping[str, int],
        request: ReserveBudget,
        answer: BudgetSpent | BudgetRefused,
    ) -> Reservation:
        self._grant(request, answer)
        reservation = Reservation(dict(amounts))
        self._open = (*self._open, reservation)
        return reservation

    def _grant(self, request: ReserveBudget, answer: BudgetSpent | BudgetRefused) -> None:
        if isinstance(answer, BudgetRefused):
            raise budget_rules.breach_error(answer.breach, request.amounts)
        self._granted = request.amounts
