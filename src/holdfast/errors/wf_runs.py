"""Errors of runs of text workflows: their steps, loops, gates, items and scripts."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class LoopEnded(HoldfastError):
    """A loop of the text did not come to its end: raise its limit, or change its condition."""


class GateFailed(HoldfastError):
    """A gate of the text was not approved: replay the run to ask again."""


class ParallelFailed(HoldfastError):
    """Too few branches of a parallel block succeeded: repair them and replay the run."""


class FanoutFailed(HoldfastError):
    """The items of a foreach failed: repair them and replay the run."""


class ConditionFailed(HoldfastError):
    """A condition of the text cannot be evaluated: correct the text and start another run."""


class BadStepOutput(HoldfastError):
    """The answer of a step cannot be used: correct the executor, the script or its schema."""


class ScriptFailed(HoldfastError):
    """A script did not succeed: its last lines on stderr say more."""


class ProgramUnusable(HoldfastError):
    """A program of the library cannot be used: correct its command line or its answer."""


class BadItem(HoldfastError):
    """A provider returned items that cannot be used: correct the provider."""


class BadRegistration(UsageError):
    """This cannot be registered for text workflows: correct it as the facts say."""


class BadSettings(UsageError):
    """The file holdfast.toml cannot be used: correct the named entry."""


class MissingExecutor(HoldfastError):
    """This worker has no executor for a call of the text: register it, or start a worker that has
    it, and resume the run."""


class TooDeep(HoldfastError):
    """Sub-workflows are nested too deep: call them one after another instead."""


class UnknownSubflow(HoldfastError):
    """No workflow has this name on this worker: add it to the library, or register it."""


class WaitFailed(HoldfastError):
    """A wait of the text ended without success: replay the run to wait again."""
