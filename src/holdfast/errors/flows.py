"""Errors about managed flows."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class FlowNotFound(UsageError):
    """There is no such flow: `holdfast flows` lists the flows."""


class FlowNotYours(UsageError):
    """This flow belongs to another owner: call as its owner."""


class FlowExists(UsageError):
    """A flow with this id exists already: choose another id, or leave it out."""


class FlowChanged(UsageError):
    """Another caller has changed the flow since it was read: read it again, then decide."""


class FlowFinished(UsageError):
    """This flow has ended and cannot be changed any more: create a new one."""


class FlowCancelPending(UsageError):
    """This flow was asked to stop: it can only be cancelled now."""


class BadFlowPatch(UsageError):
    """The state of a flow must be JSON: pass plain data."""


class BadFlowWait(UsageError):
    """The description of the wait of a flow is not valid: correct it as the facts say."""
