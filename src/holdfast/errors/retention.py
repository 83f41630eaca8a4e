"""Errors about retention."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class HistoryGone(UsageError):
    """The history of this run was deleted by a retention rule: it can be neither replayed nor
    forked."""


class RetentionNotFound(UsageError):
    """There is no such retention rule: `holdfast retention` lists what there is."""
