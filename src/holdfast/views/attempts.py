"""Views of the attempts at a run."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.core.runs import ErrorInfo
from holdfast.core.tasks.attempts import Attempt, AttemptKind
from holdfast.views.values import error, optional_instant


class AttemptView(msgspec.Struct, kw_only=True):
    """An attempt at a run. ``number`` counts all attempts; ``kind`` is "initial", "retry",
    "reclaim" or "replay". ``outcome`` is "completed", "failed", "cancelled", "expired", "lost",
    "revoked", or the kind of a failure; None while the attempt lasts. A worker, session or start
    that is not known is None."""

    number: int
    kind: AttemptKind
    worker: str | None
    session: str | None
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str | None
    error: ErrorInfo | None


def attempt_of(attempt: Attempt) -> AttemptView:
    """Return the view of an attempt."""
    return AttemptView(
        number=attempt.number,
        kind=attempt.kind,
        worker=attempt.worker,
        session=attempt.session,
        started_at=optional_instant(attempt.started_at),
        ended_at=optional_instant(attempt.ended_at),
        outcome=attempt.outcome,
        error=error(attempt.error),
    )
