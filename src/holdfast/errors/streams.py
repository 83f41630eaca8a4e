"""Errors about the output of runs."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class FrameTooBig(UsageError):
    """A frame holds at most 65536 bytes: write it in pieces, or store it elsewhere and emit
    where."""


class BadPatch(UsageError):
    """This cannot change a summary: give a JSON object, nested at most 16 deep."""


class StreamClosed(UsageError):
    """The attempt at this step has ended: nothing can be appended to its stream any more."""
