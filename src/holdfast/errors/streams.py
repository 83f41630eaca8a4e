"""Errors about the output of runs."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class FrameTooBig(UsageError):
    """A frame holds at most 65536 bytes: emit it in pieces, or store the data elsewhere and emit
    its location."""


class BadPatch(UsageError):
    """This value is not a patch of a summary: pass a JSON object, nested at most 16 deep."""


class StreamClosed(UsageError):
    """The attempt at this step has ended, so nothing can be appended to its stream: let the step
    wait for its threads and tasks."""
