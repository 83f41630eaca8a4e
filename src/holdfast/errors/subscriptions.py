"""Errors about subscriptions and webhooks."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class BadCursor(UsageError):
    """This cursor cannot be read on from: begin without one, or with one that this database gave
    out."""


class SubscriptionNotFound(UsageError):
    """There is no such subscription: `holdfast subscriptions` lists what there is."""


class SubscriptionExists(UsageError):
    """This name belongs to a subscription to other events, or of another kind: choose another one,
    or remove it first."""
