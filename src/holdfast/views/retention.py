"""Views of retention rules."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from holdfast.core.retention import RetentionRule
from holdfast.store.retention.batches import RetentionPreview
from holdfast.views.values import optional_span


class RetentionRuleView(msgspec.Struct, kw_only=True):
    """A rule that decides which data of finished runs is deleted, and when. ``status`` is empty for
    all final statuses."""

    name: str
    target: str
    workflow: str | None
    status: list[str]
    older_than: timedelta | None
    keep_last: int | None
    max_bytes: int | None


class RetentionPreviewView(msgspec.Struct, kw_only=True):
    """How much a rule would delete now: trees of runs, runs, and about how many bytes."""

    name: str
    target: str
    trees: int
    runs: int
    bytes: int


def of(rule: RetentionRule) -> RetentionRuleView:
    """Return the view of a retention rule."""
    return RetentionRuleView(
        name=rule.name,
        target=rule.target,
        workflow=rule.workflow,
        status=list(rule.statuses),
        older_than=optional_span(rule.older_than),
        keep_last=rule.keep_last,
        max_bytes=rule.max_bytes,
    )


def preview_of(preview: RetentionPreview) -> RetentionPreviewView:
    """Return the view of the effect of a rule."""
    return RetentionPreviewView(
        name=preview.name,
        target=preview.target,
        trees=preview.trees,
        runs=preview.runs,
        bytes=preview.bytes,
    )
