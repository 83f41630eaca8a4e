"""Views of retention rules."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from holdfast.core.retention import RetentionRule
from holdfast.views.values import optional_span


class RetentionRuleView(msgspec.Struct, kw_only=True):
    """A rule that decides which data of finished runs is deleted, and when. ``status`` is empty for
    all final statuses."""

    name: str
    what: str
    workflow: str | None
    status: list[str]
    older_than: timedelta | None
    keep_last: int | None
    max_bytes: int | None


def of(rule: RetentionRule) -> RetentionRuleView:
    """Return the view of a retention rule."""
    return RetentionRuleView(
        name=rule.name,
        what=rule.what,
        workflow=rule.workflow,
        status=list(rule.statuses),
        older_than=optional_span(rule.older_than),
        keep_last=rule.keep_last,
        max_bytes=rule.max_bytes,
    )
