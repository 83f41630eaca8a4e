"""Errors about subscriptions and webhooks."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class BadCursor(UsageError):
    """Reading cannot continue from this cursor: begin without one, or use a cursor that this
    database returned."""


class SubscriptionNotFound(UsageError):
    """There is no such subscription: `holdfast events subscriptions` lists the subscriptions."""


class SubscriptionExists(UsageError):
    """This name belongs to a subscription to other events, or of another kind: choose another name,
    or remove that subscription first."""
