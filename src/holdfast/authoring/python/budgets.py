"""``spend``, ``record`` and ``reserve``: the use of budgets in steps and in workflow code.

The same functions serve ``async def`` and ``def`` code. In a step they go to the spending of the
attempt; in workflow code they are commands of the program; elsewhere they do nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from contextvars import Token
from typing import Any

from holdfast.authoring.python.step import current_reservation
from holdfast.authoring.replay.async_program import AsyncProgram
from holdfast.authoring.replay.call import Call, resolve
from holdfast.authoring.replay.replay import Evicted, ReplayProgram, current_program
from holdfast.authoring.replay.sync_program import SyncProgram
from holdfast.core import typed_json
from holdfast.core.budgets.ledger import SpendingSink, current_spending
from holdfast.core.budgets.rules import Amount, amounts_from
from holdfast.core.commands import ReleaseReservation, Reserve, Spend
from holdfast.core.events import Event
from holdfast.core.runs import ErrorInfo
from holdfast.core.step_info import current_step
from holdfast.core.text import is_storable
from holdfast.errors import BadOption, BudgetExceeded, NotInWorkflow, UnknownDimension


class _Done(Awaitable[None]):
    """An awaitable that is complete: awaiting it does nothing."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_DONE = _Done()


def spend(*, key: str | None = None, **amounts: Amount) -> Awaitable[None]:
    """Take from the budgets of this run: ``budgets.spend(tokens=1200, money="0.03")``.

    All amounts are taken or none: without room the run waits, fails or is cancelled, as its budget
    says. In a step the amounts are counted together with the step's result, so once, however many
    attempts there were. In workflow code they are counted at once; an ``async def`` workflow must
    await the call. With a *key* they are counted once per run. Outside a run the call does
    nothing."""
    return _spend(amounts, key, fact=False)


def record(*, key: str | None = None, **amounts: Amount) -> Awaitable[None]:
    """Record spending that has already happened: ``budgets.record(tokens=reply.tokens)``.

    The amounts are counted for each attempt that records them, even if the attempt fails, and even
    past a limit; in that case no further step of the run begins before there is room. With a *key*
    they are counted once per run."""
    return _spend(amounts, key, fact=True)


def _spend(amounts: dict[str, Amount], key: str | None, *, fact: bool) -> Awaitable[None]:
    parsed = amounts_from(amounts)
    if key is not None and (
        not isinstance(key, str) or not key or len(key) > 200 or not is_storable(key)
    ):
        raise BadOption(option="key", value=key, why="a key must be a text of 1 to 200 characters")
    program = current_program.get()
    if current_step.get() is not None:
        spending = current_spending.get()
        if spending is not None:
            spending.spend(parsed, key, fact=fact)
    elif isinstance(program, AsyncProgram):
        return _fulfil(program, _spend_call(program, parsed, key, fact))
    elif isinstance(program, SyncProgram):
        resolve(program, _spend_call(program, parsed, key, fact))
    return _DONE


def _spend_call(
    program: ReplayProgram, amounts: dict[str, int], key: str | None, fact: bool
) -> Call:
    identity = program.identify("record" if fact else "spend")
    return Call(Spend(identity, amounts, key, current_reservation.get(), fact), _raise_if_refused)


def _raise_if_refused(event: Event) -> None:
    """Raise UnknownDimension or BudgetExceeded if the outcome is a refusal."""
    if event.error is not None:
        info = typed_json.decode(event.error, ErrorInfo)
        if info.type == UnknownDimension.__name__:
            raise UnknownDimension(**info.facts)
        raise BudgetExceeded(**info.facts)


# Workflow code may wrap this coroutine in a task. Its name is then part of step identities in
# recorded histories (see WorkflowLoop.create_task), so it must not change.
async def _fulfil(program: AsyncProgram, call: Call) -> Any:
    return call.decode(await program.call(call.command))


class reserve:
    """Reserve amounts while a block runs: ``with budgets.reserve(tokens=4000): ...``.

    ``async def`` code uses ``async with``. The block waits until there is room. Spending inside it
    counts against the reservation; the remainder is released when the block ends, with or without
    an error.
    """

    def __init__(self, **amounts: Amount) -> None:
        self._amounts = amounts_from(amounts)
        self._in_step: tuple[SpendingSink, object] | None = None
        """In a step: the spending of the attempt, and its handle of the reservation."""
        self._in_workflow: tuple[str, Token[str | None]] | None = None
        """In workflow code: the step identity of the reservation, and the token that restores the
        outer one."""

    def __enter__(self) -> reserve:
        program = current_program.get()
        if current_step.get() is not None:
            spending = current_spending.get()
            if spending is not None:
                self._in_step = (spending, spending.reserve(self._amounts))
        elif isinstance(program, AsyncProgram):
            raise NotInWorkflow(
                call="reserve", why="an async workflow must use: async with reserve(...)"
            )
        elif isinstance(program, SyncProgram):
            self._enter(resolve(program, self._reserve_call(program)))
        return self

    async def __aenter__(self) -> reserve:
        program = current_program.get()
        if current_step.get() is not None:
            spending = current_spending.get()
            if spending is not None:
                self._in_step = (spending, await spending.reserve_aio(self._amounts))
        elif isinstance(program, AsyncProgram):
            self._enter(await _fulfil(program, self._reserve_call(program)))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._release_in_step()
        program = current_program.get()
        # A run that leaves memory keeps its reservation: the block goes on when it is replayed.
        if (
            self._in_workflow is not None
            and isinstance(program, SyncProgram)
            and kind is not Evicted
        ):
            resolve(program, self._release_call(program))

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._release_in_step()
        program = current_program.get()
        if (
            self._in_workflow is not None
            and isinstance(program, AsyncProgram)
            and kind not in (GeneratorExit, Evicted)  # the run leaves memory, as in __exit__
        ):
            await _fulfil(program, self._release_call(program))

    def _reserve_call(self, program: ReplayProgram) -> Call:
        identity = program.identify("reserve")

        def decode(event: Event) -> str:
            _raise_if_refused(event)
            return identity

        return Call(Reserve(identity, self._amounts, current_reservation.get()), decode)

    def _enter(self, identity: str) -> None:
        self._in_workflow = (identity, current_reservation.set(identity))

    def _release_call(self, program: ReplayProgram) -> Call:
        assert self._in_workflow is not None
        identity, token = self._in_workflow
        current_reservation.reset(token)
        self._in_workflow = None
        return Call(ReleaseReservation(program.identify("release"), identity), lambda event: None)

    def _release_in_step(self) -> None:
        if self._in_step is not None:
            spending, reservation = self._in_step
            spending.release(reservation)
            self._in_step = None
