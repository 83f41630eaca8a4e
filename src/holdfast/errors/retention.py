"""Errors about retention."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class HistoryGone(UsageError):
    """A retention rule has deleted the history of this run, so it can be neither replayed nor
    forked: start a new run."""


class RetentionNotFound(UsageError):
    """There is no such retention rule: `holdfast db retention` lists the rules."""
