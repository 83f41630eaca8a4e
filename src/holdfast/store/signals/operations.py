"""Operations on signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from holdfast.core.payload import Payload
from holdfast.core.waits import MOST_SIGNALS
from holdfast.store.database import Operation
from holdfast.store.effects import Effect, Phase


class WaitDelivery(msgspec.Struct):
    """A stored signal: its number within the run, and its effect (a value of SignalEffect). ``new``
    is false if its key was used before; then the other fields are those of the first answer."""

    number: int
    effect: str
    new: bool = True


class SignalRun(Operation):
    """Store a signal for a run, or for one wait of the run, and wake the run if it waits for the
    signal.

    Answers:
        WaitDelivery    what the signal came to; for a repeated key, the first answer
    Raises:
        RunNotFound     there is no run of this id
        RunFinished     the run has ended
        TooManySignals  the run has had ``limit`` signals
        WaitNotFound    *wait_id* is not a wait of this run
        WaitClosed      the wait is closed
        WaitExpired     the wait is past its time
    """

    run_id: str
    name: str
    payload: bytes
    key: str | None = None
    source: str | None = None
    wait_id: str | None = None
    limit: int = MOST_SIGNALS
    payloads: Sequence[Payload] = ()


class TakeSignals(Effect):
    """Consume signals of the run, given by their ids."""

    ids: Sequence[int]


class SignalOtherRun(Effect):
    """Send a signal to another run. A run that has ended, or has too many signals, ignores it."""

    phase: ClassVar[Phase] = Phase.OTHER_RUNS

    run_id: str
    name: str
    payload: bytes
    key: str

    @property
    def locks(self) -> Sequence[str]:
        return (self.run_id,)
