"""Record in the history that a step has started, if it runs for long.

Most steps end within a moment, and their outcome has the time of their start. The running attempts
are in one dictionary in the order of their start, so that an attempt costs an entry and no timer of
its own. A step is any hashable object here: this module does not know pending commands.
"""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.engine.runtime.timer_queue import TimerQueue

NOTE_AFTER = 1_000_000
"""Microseconds after which the history records that a step has started."""


class _Run(Protocol):
    """An execution that records which of its steps run for long."""

    def note_started(self, step: Any) -> None:
        """Record that a step has started."""


class LongSteps:
    """The running attempts of one worker."""

    __slots__ = ("_is_armed", "_running", "_timers")

    def __init__(self, timers: TimerQueue) -> None:
        self._timers: TimerQueue = timers
        self._running: dict[Any, tuple[_Run, int]] = {}
        self._is_armed: bool = False

    def begin(self, run: _Run, step: Any, started_at: int) -> None:
        """Add an attempt that has started."""
        self._running[step] = (run, started_at)
        if not self._is_armed:
            self._arm(started_at)

    def end(self, step: Any) -> None:
        """Remove an attempt that has ended, or was given up."""
        self._running.pop(step, None)

    def _arm(self, started_at: int) -> None:
        self._is_armed = True
        self._timers.at(started_at + NOTE_AFTER, self._note_late)

    def _note_late(self) -> None:
        self._is_armed = False
        until = self._timers.now() - NOTE_AFTER
        for step, (run, started_at) in list(self._running.items()):
            if started_at > until:
                self._arm(started_at)
                return
            del self._running[step]
            run.note_started(step)
