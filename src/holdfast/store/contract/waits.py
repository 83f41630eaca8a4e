"""What can be done to waits from outside: signals to them, and a person who lets one go."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.payload import Payload
from holdfast.core.runs import CHILDREN_END
from holdfast.core.tokens import Reveal, in_clear

MOST_SIGNALS = 10_000
"""How many signals a run may have had, unless told otherwise."""


class WaitDelivery(msgspec.Struct):
    """A signal that is there: its number within the run, and what it came to. ``new`` is false when
    its key came before; then the rest is what was answered the first time."""

    number: int
    effect: str
    new: bool = True


class DeliverSignal(msgspec.Struct, kw_only=True):
    """Leave a signal for a wait, as somebody from outside. Answers Delivery. Whoever has no good
    token for this very wait gets TokenRefused, whether or not there is such a wait; whoever has
    gets WaitClosed, WaitExpired or TooManySignals."""

    wait_id: str
    token: str
    name: str | None
    payload: bytes
    key: str | None = None
    source: str | None = None
    limit: int = MOST_SIGNALS
    payloads: Sequence[Payload] = ()
    reveal: Reveal = in_clear
    """Opens the secret of the key that the token names."""

    def __repr__(self) -> str:
        return f"<signal {self.name!r} to the wait {self.wait_id}>"


BEFORE = ""
"""The step at which a run is that has not begun."""

RELEASABLE = ("timer", "retry", CHILDREN_END)
"""The kinds of waits that an operator can release although they have no row of their own."""


class ReleaseWait(msgspec.Struct, kw_only=True):
    """Let what a run waits for at a step go, without its signals; with the step BEFORE, let one
    begin that was to begin later. Answers Delivery. Raises RunNotFound, RunFinished,
    WaitNotFound."""

    run_id: str
    step: str
    payload: bytes
    by: str | None = None
    payloads: Sequence[Payload] = ()
