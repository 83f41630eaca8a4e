"""The signals of a run that no wait has taken yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from holdfast.core.waits import Signal


class SignalBuffer:
    """The untaken signals of one run, in the order of their arrival.

    A signal is addressed to a name, to one wait, or, if an operator releases a step, to that step.
    """

    __slots__ = ("_signals", "is_exact")

    def __init__(self, signals: list[Signal], *, is_exact: bool) -> None:
        self._signals: list[Signal] = signals
        self.is_exact: bool = is_exact
        """Whether these are the signals of the revision that the execution has seen, and no other
        signal exists."""

    def replace(self, signals: Sequence[Signal], taken: Collection[int]) -> None:
        """Take over the signals as they were just read; *taken* are the ids of signals whose
        taking is not committed yet."""
        self._signals = [signal for signal in signals if signal.id not in taken]
        self.is_exact = True

    def append(self, signal: Signal) -> None:
        """Add a signal that has just arrived."""
        self._signals.append(signal)

    def __iter__(self) -> Iterator[Signal]:
        return iter(self._signals)

    # By name

    def has(self, name: str) -> bool:
        """Return whether a signal of that name can be taken."""
        return any(is_named(signal, name) for signal in self._signals)

    def take(self, name: str) -> Signal | None:
        """Remove the oldest signal of that name and return it, None if there is none."""
        for place, signal in enumerate(self._signals):
            if is_named(signal, name):
                del self._signals[place]
                return signal
        return None

    # By condition

    def addressed(self, instant: int | None = None) -> list[Signal]:
        """Return the signals that conditions are evaluated over: all, or only the signals that had
        arrived by *instant*."""
        return [
            signal
            for signal in self._signals
            if not signal.is_release and (instant is None or signal.at <= instant)
        ]

    def remove(self, signals: Sequence[Signal]) -> None:
        """Remove signals that a wait has consumed."""
        self._signals = [signal for signal in self._signals if signal not in signals]

    def take_one(self, signal_id: int) -> bool:
        """Remove a signal. Return False if it is not there any more."""
        for place, signal in enumerate(self._signals):
            if signal.id == signal_id:
                del self._signals[place]
                return True
        return False

    # Releases by operators

    def release_of(self, step: str) -> Signal | None:
        """Return the signal by which an operator released that step, None if there is none."""
        return next((signal for signal in self._signals if signal.step == step), None)

    def releases_of(self, step: str) -> list[int]:
        """Return the ids of all signals that release that step."""
        return [signal.id for signal in self._signals if signal.step == step]

    def take_releases(self, step: str) -> list[int]:
        """Remove all signals that release that step, and return their ids."""
        releases = self.releases_of(step)
        if releases:
            self._signals = [signal for signal in self._signals if signal.step != step]
        return releases


def is_named(signal: Signal, name: str) -> bool:
    """Return whether a wait for signals of that name can take this one."""
    return signal.name == name and signal.wait_id is None and not signal.is_release
