"""Views of explanations: what blocks a run, a flow, a member of a graph or a schedule."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.core.why.model import Blocker, Why
from holdfast.views.values import optional_instant


class BlockerView(msgspec.Struct, kw_only=True):
    """One cause of waiting. ``remedy`` is the command that removes it, if there is one."""

    kind: str
    text: str
    holder: str | None
    since: datetime | None
    until: datetime | None
    remedy: str | None


class WhyView(msgspec.Struct, kw_only=True):
    """Where a run stands, its blockers, and the command (``remedy``) that lets it continue."""

    run: str
    workflow: str
    status: str
    reason: str
    since: datetime | None
    blockers: list[BlockerView]
    remedy: str | None


def of(why: Why) -> WhyView:
    """Return the view of an explanation."""
    return WhyView(
        run=why.run,
        workflow=why.workflow,
        status=why.status,
        reason=why.reason,
        since=optional_instant(why.since),
        blockers=[blocker_of(blocker) for blocker in why.blockers],
        remedy=why.remedy,
    )


def blocker_of(blocker: Blocker) -> BlockerView:
    """Return the view of one cause of waiting."""
    return BlockerView(
        kind=blocker.kind,
        text=blocker.text,
        holder=blocker.holder,
        since=optional_instant(blocker.since),
        until=optional_instant(blocker.until),
        remedy=blocker.remedy,
    )
