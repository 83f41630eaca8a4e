"""Errors about managed flows."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class FlowNotFound(UsageError):
    """There is no such flow; `holdfast flows` lists them."""


class FlowNotYours(UsageError):
    """This flow belongs to another owner."""


class FlowExists(UsageError):
    """There is a flow with this id already."""


class FlowChanged(UsageError):
    """The flow was changed by somebody else meanwhile; read it again, then decide."""


class FlowFinished(UsageError):
    """This flow has ended; nothing more can happen to it."""


class FlowCancelPending(UsageError):
    """This flow was asked to stop; all that can be done to it is to cancel it."""


class BadFlowPatch(UsageError):
    """The state of a flow must be JSON."""


class BadFlowWait(UsageError):
    """A flow cannot wait for this."""
