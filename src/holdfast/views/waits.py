"""Views of waits."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.service.waits import WaitInfo
from holdfast.views.values import instant, optional_instant


class WaitView(msgspec.Struct, kw_only=True):
    """A wait, without its token. A wait with an ``id`` was issued to the outside; a wait without
    one is a condition for which the run's code waits. ``state`` is open, escalated, expired or
    closed. ``reason`` is why a task was suspended, and ``asked_by`` who asked for it. ``kid`` and
    ``fingerprint`` identify the signing key and the token."""

    run_id: str
    step: str
    id: str | None
    name: str
    state: str
    opened_at: datetime
    until: datetime | None
    escalated_at: datetime | None
    closed_at: datetime | None
    closed_by: str | None
    reason: str | None
    asked_by: str | None
    kid: str | None
    fingerprint: str | None


def of(wait: WaitInfo) -> WaitView:
    """Return the view of a wait."""
    return WaitView(
        run_id=wait.run_id,
        step=wait.step,
        id=wait.id,
        name=wait.name,
        state=wait.state,
        opened_at=instant(wait.opened_at),
        until=optional_instant(wait.until),
        escalated_at=optional_instant(wait.escalated_at),
        closed_at=optional_instant(wait.closed_at),
        closed_by=wait.closed_by,
        reason=wait.reason,
        asked_by=wait.asked_by,
        kid=wait.kid,
        fingerprint=wait.fingerprint,
    )
