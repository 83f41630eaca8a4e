"""What a run can wait for: signals, waits that were handed out, and trees of them. Pure.

A tree is judged over all signals that no wait has taken, in the order in which they came, and each
node counts for itself. It is met by the first signal that makes it whole; what comes after that one
is not its concern. Once met it stays met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.codec import JsonCodec
from holdfast.core.conditions.model import (
    AllOf,
    AnyOf,
    Condition,
    Count,
    Leaf,
    SignalEffect,
    SignalNamed,
    SignalToWait,
    SignalView,
)

_JSON = JsonCodec()

DISTINCT = ("signals", "sources", "waits")


Read = Callable[[Any], Any]
"""Returns the payload of a signal as plain data."""


# Judging


class ConditionProgress:
    """What of a condition is met so far. Signals are offered one by one, the oldest first."""

    def __init__(self, condition: Condition, read: Read) -> None:
        self._root = _node(condition, read)
        self._offered = 0

    @property
    def met(self) -> bool:
        """Whether the condition is whole."""
        return self._root.met

    def offer(self, signal: SignalView, times: int = 1) -> SignalEffect:
        """Take the next signal into account and say what it came to. A condition that is met lets
        it lie. The same signal several *times* at once is for those who only want to know whether
        it is met: who met it cannot be told then."""
        place, self._offered = self._offered, self._offered + 1
        if self._root.met or not any(_is_about(leaf, signal) for leaf in self._root.leaves):
            return SignalEffect.KEPT
        matched, counted = self._root.offer(place, signal, times)
        if self._root.met:
            return SignalEffect.SATISFIED
        if counted:
            return SignalEffect.KEPT
        return SignalEffect.DUPLICATE if matched else SignalEffect.IGNORED

    def offer_all(self, signals: Sequence[SignalView]) -> ConditionProgress:
        """Take these signals into account, up to the one that makes the condition whole."""
        for signal in signals:
            if self._root.met:
                break
            self.offer(signal)
        return self

    def satisfiers(self) -> list[int]:
        """Return the places of the signals by which it is met."""
        return sorted(set(self._root.satisfiers()))

    def spent(self) -> list[int]:
        """Return the places of the signals that nobody else shall have: those by which it is met,
        and those that were not counted because they repeat one of them. Of a condition that is not
        met, all that matched."""
        return sorted(set(self._root.spent()) if self._root.met else set(self._root.matches()))

    def is_hopeless(self, now: int) -> bool:
        """Say whether it can no longer be met, because waits that it needs have expired."""
        return not self._root.met and not self._root.possible(now)

    def missing(self) -> list[str]:
        """Say in words what is still missing."""
        return [] if self._root.met else list(self._root.missing())

    def here(self) -> list[str]:
        """Say in words what is there already."""
        return list(self._root.here())

    def open_leaf(self) -> Leaf | None:
        """Return something that would bring it further."""
        return None if self._root.met else self._root.open_leaf()


class _ConditionNode:
    """One node and what it has counted. ``seen`` is what matched before it was met."""

    met = False
    leaves: tuple[Leaf, ...]

    def offer(self, place: int, signal: SignalView, times: int) -> tuple[bool, bool]:
        """Return whether the signal matches, and whether it is counted."""
        raise NotImplementedError

    def satisfiers(self) -> Iterator[int]:
        raise NotImplementedError

    def spent(self) -> Iterator[int]:
        raise NotImplementedError

    def matches(self) -> Iterator[int]:
        raise NotImplementedError

    def possible(self, now: int) -> bool:
        raise NotImplementedError

    def missing(self) -> Iterator[str]:
        raise NotImplementedError

    def here(self) -> Iterator[str]:
        raise NotImplementedError

    def open_leaf(self) -> Leaf | None:
        raise NotImplementedError


class _Counter(_ConditionNode):
    """A leaf, or so many signals or sources that match one of several leaves."""

    def __init__(self, condition: Leaf | Count, read: Read) -> None:
        self._condition, self._read = condition, read
        many = isinstance(condition, Count)
        self.leaves = tuple(_leaves(condition))
        self._wanted = condition.n if many else 1  # type: ignore[union-attr]
        self._by_source = many and condition.distinct == "sources"  # type: ignore[union-attr]
        self._counted: dict[object, int] = {}
        self._more = 0
        self._seen: list[int] = []

    def offer(self, place: int, signal: SignalView, times: int) -> tuple[bool, bool]:
        if not any(matches(leaf, signal, self._read) for leaf in self.leaves):
            return False, False
        if self.met:
            return True, False
        self._seen.append(place)
        what: object = signal.source if self._by_source else place
        if what in self._counted:
            return True, False
        self._counted[what] = place
        self._more += 0 if self._by_source else times - 1
        self.met = len(self._counted) + self._more >= self._wanted
        return True, True

    def satisfiers(self) -> Iterator[int]:
        return iter(self._counted.values())

    def spent(self) -> Iterator[int]:
        return iter(self._seen)

    matches = spent

    def possible(self, now: int) -> bool:
        return self.met or any(_is_open(leaf, now) for leaf in self.leaves)

    def missing(self) -> Iterator[str]:
        if self._wanted == 1:
            yield show(self._condition)
        else:
            yield f"{show(self._condition)}, {len(self._counted)} so far"

    def here(self) -> Iterator[str]:
        if self.met:
            yield show(self._condition)

    def open_leaf(self) -> Leaf | None:
        return self.leaves[0]


class _Group(_ConditionNode):
    """So many of several conditions."""

    def __init__(self, condition: AllOf | AnyOf | Count, wanted: int, read: Read) -> None:
        self._condition, self._wanted = condition, wanted
        self._members, self._read = [_node(member, read) for member in condition.of], read
        self.leaves = tuple(leaf for member in self._members for leaf in member.leaves)

    def offer(self, place: int, signal: SignalView, times: int) -> tuple[bool, bool]:
        if self.met:
            return any(matches(leaf, signal, self._read) for leaf in self.leaves), False
        answers = [member.offer(place, signal, times) for member in self._members]
        self.met = len(self._good()) >= self._wanted
        return any(matched for matched, _ in answers), any(counted for _, counted in answers)

    def _good(self) -> list[_ConditionNode]:
        return [member for member in self._members if member.met]

    def satisfiers(self) -> Iterator[int]:
        return (place for member in self._good() for place in member.satisfiers())

    def spent(self) -> Iterator[int]:
        return (place for member in self._good() for place in member.spent())

    def matches(self) -> Iterator[int]:
        return (place for member in self._members for place in member.matches())

    def possible(self, now: int) -> bool:
        return sum(member.possible(now) for member in self._members) >= self._wanted

    def missing(self) -> Iterator[str]:
        if self._wanted == len(self._members):
            for member in self._members:
                if not member.met:
                    yield from member.missing()
        else:
            open_ones = ", ".join(
                " and ".join(member.missing()) for member in self._members if not member.met
            )
            yield (
                f"{'any' if self._wanted == 1 else self._wanted - len(self._good())} of"
                f" ({open_ones})"
            )

    def here(self) -> Iterator[str]:
        for member in self._members:
            yield from member.here()

    def open_leaf(self) -> Leaf | None:
        return next((member.open_leaf() for member in self._members if not member.met), None)


def _node(condition: Condition, read: Read) -> _ConditionNode:
    if isinstance(condition, AllOf):
        return _Group(condition, len(condition.of), read)
    if isinstance(condition, AnyOf):
        return _Group(condition, 1, read)
    if isinstance(condition, Count) and condition.distinct == "waits":
        return _Group(condition, condition.n, read)
    return _Counter(condition, read)


def matches(leaf: Leaf, signal: SignalView, read: Read) -> bool:
    """Say whether a signal is what a leaf waits for."""
    if not _is_about(leaf, signal) or (leaf.name is not None and leaf.name != signal.name):
        return False
    return leaf.payload is None or fits(leaf.payload, read(signal))


def _is_about(leaf: Leaf, signal: SignalView) -> bool:
    """Say whether a signal is addressed to what a leaf waits for, whether or not it matches."""
    if isinstance(leaf, SignalToWait):
        return signal.wait_id == leaf.wait
    return signal.wait_id is None and signal.name == leaf.name


def fits(wanted: Any, found: Any) -> bool:
    """Say whether plain data has in it what is wanted: a mapping has these fields, whatever else it
    has; the rest is equal."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and fits(value, found[name]) for name, value in wanted.items()
        )
    if isinstance(wanted, list | tuple):
        same = isinstance(found, list | tuple) and len(wanted) == len(found)
        return same and all(fits(one, other) for one, other in zip(wanted, found, strict=True))
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    return bool(wanted == found)


def _is_open(leaf: Leaf, now: int) -> bool:
    return not isinstance(leaf, SignalToWait) or leaf.until is None or leaf.until > now


# Looking


def _leaves(condition: Condition) -> Iterator[Leaf]:
    if isinstance(condition, SignalNamed | SignalToWait):
        yield condition
    else:
        for member in condition.of:
            yield from _leaves(member)


def issued_waits(condition: Condition) -> dict[str, SignalToWait]:
    """Return the waits that were handed out and that a condition speaks of, by their ids."""
    return {leaf.wait: leaf for leaf in _leaves(condition) if isinstance(leaf, SignalToWait)}


def next_expiry(condition: Condition, now: int) -> int | None:
    """Say when the next of its waits expires: then the condition may have become hopeless."""
    return min(
        (
            wait.until
            for wait in issued_waits(condition).values()
            if wait.until is not None and wait.until > now
        ),
        default=None,
    )


def concerns(condition: Condition, signal: SignalView) -> bool:
    """Say whether a signal is addressed to something that a condition speaks of."""
    return any(_is_about(leaf, signal) for leaf in _leaves(condition))


def reads_payloads(condition: Condition) -> bool:
    """Say whether a signal's payload decides about it."""
    return any(leaf.payload is not None for leaf in _leaves(condition))


def show(condition: Condition) -> str:
    """Write a condition for people."""
    if isinstance(condition, SignalNamed | SignalToWait):
        return _show_leaf(condition)
    members = ", ".join(show(member) for member in condition.of)
    if isinstance(condition, AllOf):
        return f"all of ({members})"
    if isinstance(condition, AnyOf):
        return f"any of ({members})"
    what = {"signals": " signals", "sources": " distinct sources", "waits": ""}[condition.distinct]
    return (
        f"{condition.n}{what} of ({members})"
        if len(condition.of) > 1
        else f"{condition.n}{what} of {members}"
    )


def _show_leaf(leaf: Leaf) -> str:
    text = repr(leaf.name) if isinstance(leaf, SignalNamed) else f"the wait {leaf.label!r}"
    if isinstance(leaf, SignalToWait) and leaf.name is not None:
        text += f" with a signal {leaf.name!r}"
    if leaf.payload is not None:
        text += f" with {msgspec.json.encode(leaf.payload).decode()}"
    return text


# Checking
