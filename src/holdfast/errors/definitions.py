"""Errors about deployed definitions."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class ModelNotFound(UsageError):
    """There is no deployed model of this name and version: `holdfast models` lists them."""


class ModelKindUnknown(UsageError):
    """This is no source of a model: give the path of a .bpmn, .dmn or .wf file, its bytes, or a
    process as a dict."""


class NotThere(UsageError):
    """No token of the run waits at this element: `holdfast models tokens` lists the tokens."""


class NoReceiver(UsageError):
    """Nothing waits for this message, and it has no time to live: give `ttl`, or send it later."""


class TaskClosed(UsageError):
    """This task is not open any more: `holdfast models tasks` lists the open ones."""


class Unanswered(UsageError):
    """No worker has applied the instruction in time; it stays queued: start a worker that serves
    the run."""


class MappingRefused(UsageError):
    """The mapping does not fit the two versions: map each element to an element of the same kind
    that the other version has."""
