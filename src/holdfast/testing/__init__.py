"""Test kit for workflows: a virtual clock, a lab to run them in, and crashes at every commit.

The names are loaded when they are first used, so a test run that loads the pytest plugin does not
pay for parts that it does not use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.testing.clock import VirtualClock
    from holdfast.testing.crash import BrokenPromise, CrashReport, crash_everywhere
    from holdfast.testing.dry_replay import DoesNotFit, replay
    from holdfast.testing.engine_internals import internals
    from holdfast.testing.idle import NotIdle
    from holdfast.testing.lab import Lab, NeverEnds

_HOMES = {
    "BrokenPromise": "crash",
    "CrashReport": "crash",
    "DoesNotFit": "dry_replay",
    "Lab": "lab",
    "NeverEnds": "lab",
    "NotIdle": "idle",
    "VirtualClock": "clock",
    "crash_everywhere": "crash",
    "internals": "engine_internals",
    "replay": "dry_replay",
}

__all__ = [
    "BrokenPromise",
    "CrashReport",
    "DoesNotFit",
    "Lab",
    "NeverEnds",
    "NotIdle",
    "VirtualClock",
    "crash_everywhere",
    "internals",
    "replay",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
