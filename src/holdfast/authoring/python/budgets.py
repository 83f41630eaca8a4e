"""``spend``, ``spent`` and ``reserve``: what a run takes from its budgets, in steps and in workflow
code, in both colours."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from contextvars import Token
from typing import Any

import msgspec

from holdfast.authoring.python.step import current_reservation, current_step
from holdfast.authoring.replay.async_program import AsyncProgram
from holdfast.authoring.replay.call import Call, resolve
from holdfast.authoring.replay.replay import Evicted, ReplayProgram, current_program
from holdfast.authoring.replay.sync_program import SyncProgram
from holdfast.core.budgets.ledger import SpendingSink, current_spending
from holdfast.core.budgets.rules import Amount, amounts_from
from holdfast.core.commands import ReleaseReservation, Reserve, Spend
from holdfast.core.events import Event
from holdfast.core.runs import ErrorInfo
from holdfast.core.text import is_storable
from holdfast.errors import BadOption, BudgetExceeded, NotInWorkflow, UnknownDimension


class _Done(Awaitable[None]):
    """Something that is done; awaiting it does nothing."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_DONE = _Done()


def spend(*, key: str | None = None, **amounts: Amount) -> Awaitable[None]:
    """Take from the budgets of this run: ``spend(tokens=1200, money="0.03")``.

    All of it or nothing: without room the run waits, fails or is cancelled, as its budget says. In
    a step it is counted together with the step's result: once, however many attempts there were. In
    workflow code (awaited, in an ``async def`` one) it is counted at once. With a *key* it is
    counted once per run. Outside a run it does nothing."""
    return _take(amounts, key, fact=False)


def spent(*, key: str | None = None, **amounts: Amount) -> Awaitable[None]:
    """Say what has been spent already, such as the tokens of a call that was made:
    ``spent(tokens=reply.tokens)``.

    It is a fact, and counted for each attempt that says so, even when that fails, and even past a
    limit; then no further step of the run begins before there is room. With a *key* it is counted
    once per run."""
    return _take(amounts, key, fact=True)


def _take(amounts: dict[str, Amount], key: str | None, *, fact: bool) -> Awaitable[None]:
    found = amounts_from(amounts)
    if key is not None and (
        not isinstance(key, str) or not key or len(key) > 200 or not is_storable(key)
    ):
        raise BadOption(option="key", value=key, why="it must be a text of 1 to 200 characters")
    program = current_program.get()
    if current_step.get() is not None:
        purse = current_spending.get()
        if purse is not None:
            purse.spend(found, key, fact=fact)
    elif isinstance(program, AsyncProgram):
        return _fulfil(program, _spending(program, found, key, fact))
    elif isinstance(program, SyncProgram):
        resolve(program, _spending(program, found, key, fact))
    return _DONE


def _spending(program: ReplayProgram, amounts: dict[str, int], key: str | None, fact: bool) -> Call:
    identity = program.identify("spent" if fact else "spend")
    return Call(Spend(identity, amounts, key, current_reservation.get(), fact), _granted)


def _granted(event: Event) -> None:
    if event.error is not None:
        info = msgspec.json.decode(event.error, type=ErrorInfo)
        raise (UnknownDimension if info.type == UnknownDimension.__name__ else BudgetExceeded)(
            **info.facts
        )


async def _fulfil(program: AsyncProgram, wish: Call) -> Any:
    return wish.understand(await program.ask(wish.command))


class reserve:
    """Set something aside while a block runs: ``with reserve(tokens=4000): ...``, in ``async def``
    code ``async with``.

    It waits until there is room. What is spent inside counts against it; what is left is given back
    at the end of the block, however it ends."""

    def __init__(self, **amounts: Amount) -> None:
        self._amounts = amounts_from(amounts)
        self._step: tuple[SpendingSink, object] | None = None
        self._flow: tuple[str, Token[str | None]] | None = None

    def __enter__(self) -> reserve:
        program = current_program.get()
        if current_step.get() is not None:
            purse = current_spending.get()
            self._step = None if purse is None else (purse, purse.reserve(self._amounts))
        elif isinstance(program, AsyncProgram):
            raise NotInWorkflow(
                call="reserve", why="an async workflow says: async with reserve(...)"
            )
        elif isinstance(program, SyncProgram):
            self._begin(resolve(program, self._reserving(program)))
        return self

    async def __aenter__(self) -> reserve:
        program = current_program.get()
        if current_step.get() is not None:
            purse = current_spending.get()
            self._step = None if purse is None else (purse, await purse.reserve_aio(self._amounts))
        elif isinstance(program, AsyncProgram):
            self._begin(await _fulfil(program, self._reserving(program)))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._release()
        program = current_program.get()
        if self._flow is not None and isinstance(program, SyncProgram) and kind is not Evicted:
            resolve(program, self._settling(program))

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._release()
        program = current_program.get()
        if (
            self._flow is not None
            and isinstance(program, AsyncProgram)
            and kind not in (GeneratorExit, Evicted)
        ):
            await _fulfil(program, self._settling(program))

    def _reserving(self, program: ReplayProgram) -> Call:
        identity = program.identify("reserve")

        def granted(event: Event) -> str:
            _granted(event)
            return identity

        return Call(Reserve(identity, self._amounts, current_reservation.get()), granted)

    def _begin(self, identity: str) -> None:
        self._flow = (identity, current_reservation.set(identity))

    def _settling(self, program: ReplayProgram) -> Call:
        assert self._flow is not None
        identity, token = self._flow
        current_reservation.reset(token)
        self._flow = None
        return Call(ReleaseReservation(program.identify("settle"), identity), lambda event: None)

    def _release(self) -> None:
        if self._step is not None:
            purse, held = self._step
            purse.release(held)
            self._step = None
