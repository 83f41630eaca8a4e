"""Operations on waits from outside the run, and the effects by which its holder changes them.

From outside: signals to issued waits, and releases by operators.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.payload import Payload
from holdfast.core.tokens import Reveal, in_clear
from holdfast.core.waits import MOST_SIGNALS, WaitKind, WaitRecord
from holdfast.store.database import Operation
from holdfast.store.effects import Effect


class DeliverSignal(Operation, kw_only=True):
    """Store a signal for an issued wait, on behalf of an outside caller that has the token of the
    wait.

    Answers:
        WaitDelivery    what the signal came to; for a repeated key, the first answer
    Raises:
        TokenRefused    the token was not issued for this wait; nothing was looked up before, so the
                        answer does not reveal whether the wait exists
        WaitClosed      the wait is closed, or its run has ended or is gone
        WaitExpired     the wait is past its time
        TooManySignals  the run has had ``limit`` signals
    """

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
"""The step name that stands for the delayed start of a run."""

RELEASABLE = (WaitKind.TIMER, WaitKind.RETRY, WaitKind.CHILDREN_END)
"""The kinds of waits that an operator can release although they have no row."""


class ReleaseWait(Operation, kw_only=True):
    """Release a wait of a run at a step, without its signals. With the step BEFORE, start a delayed
    run now.

    Answers:
        WaitDelivery
    Raises:
        RunNotFound   there is no run of this id
        RunFinished   the run has ended
        WaitNotFound  the run has no open wait at this step, or its start is not delayed
        BadOption     *delay* is given, and the run is not a suspended task
    """

    run_id: str
    step: str
    payload: bytes
    by: str | None = None
    payloads: Sequence[Payload] = ()
    delay: int = 0
    """Microseconds after which the run resumes. Only a suspended task, or a run that is delayed
    already, resumes later."""


class OpenWait(Effect):
    """Open a wait of the run."""

    wait: WaitRecord


class ReopenWait(Effect):
    """Open the wait at a step again."""

    step: str


class EscalateWait(Effect):
    """Mark the wait at a step as overdue; it stays open."""

    step: str


class CloseWait(Effect):
    """Close the wait at a step; ``by`` is the cause."""

    step: str
    by: str
