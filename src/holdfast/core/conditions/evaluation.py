"""Evaluation of condition trees over signals. Pure.

Invariants:
- A tree is evaluated over all signals that no wait has taken, in the order of their arrival.
- Each node counts for itself: one signal may count in several nodes.
- The first signal that completes the tree satisfies it; later signals have no effect on it.
- A condition that is met stays met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.codec import JsonCodec
from holdfast.core.conditions.model import (
    AllOf,
    AnyOf,
    AnySignal,
    Condition,
    Count,
    Leaf,
    ReleaseOnly,
    SignalEffect,
    SignalNamed,
    SignalToWait,
    SignalView,
)

_JSON = JsonCodec()

DISTINCT = ("signals", "sources", "waits")


Read = Callable[[Any], Any]
"""A function that returns the payload of a signal as plain data."""


# Evaluation


class ConditionProgress:
    """The progress of a condition over the signals that are offered to it, oldest first. A *place*
    is the index of a signal in the order in which signals were offered."""

    def __init__(self, condition: Condition, read: Read) -> None:
        self._root = _node(condition, read)
        self._offered = 0

    @property
    def met(self) -> bool:
        """Whether the condition is met."""
        return self._root.met

    def offer(self, signal: SignalView, times: int = 1) -> SignalEffect:
        """Evaluate the next signal and return its effect. A condition that is met keeps it for
        other waits.

        With *times* the signal counts as so many equal ones. This is for callers that read only
        ``met``: the places of the satisfiers are not meaningful then.
        """
        place = self._offered
        self._offered += 1
        if self._root.met or not any(_is_addressed_to(leaf, signal) for leaf in self._root.leaves):
            return SignalEffect.KEPT
        matched, counted = self._root.offer(place, signal, times)
        if self._root.met:
            return SignalEffect.SATISFIED
        if counted:
            return SignalEffect.KEPT
        return SignalEffect.DUPLICATE if matched else SignalEffect.IGNORED

    def offer_all(self, signals: Sequence[SignalView]) -> ConditionProgress:
        """Offer signals in order, up to the signal that satisfies the condition; return self."""
        for signal in signals:
            if self._root.met:
                break
            self.offer(signal)
        return self

    def satisfiers(self) -> list[int]:
        """Return the places of the signals that satisfy the condition, in order."""
        return sorted(set(self._root.satisfiers()))

    def spent(self) -> list[int]:
        """Return the places of the signals that the condition consumes, in order.

        If it is met, these are its satisfiers and the signals that were not counted because they
        repeat one of them; if it is not met, all signals that matched.
        """
        return sorted(set(self._root.spent()) if self._root.met else set(self._root.matches()))

    def is_hopeless(self, now: int) -> bool:
        """Return whether the condition can never be met, because waits that it needs expired."""
        return not self._root.met and not self._root.possible(now)

    def missing(self) -> list[str]:
        """Return descriptions of the parts that are not met yet; empty if the condition is met."""
        if self._root.met:
            return []
        return list(self._root.missing())

    def here(self) -> list[str]:
        """Return descriptions of the parts that are met."""
        return list(self._root.here())

    def open_leaf(self) -> Leaf | None:
        """Return a leaf whose signal would make progress; None if the condition is met."""
        if self._root.met:
            return None
        return self._root.open_leaf()


class _ConditionNode:
    """A node of the tree with its own counts. Its methods correspond to the
    methods of ConditionProgress."""

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
        """Return whether the node is met or can still be met."""
        raise NotImplementedError

    def missing(self) -> Iterator[str]:
        raise NotImplementedError

    def here(self) -> Iterator[str]:
        raise NotImplementedError

    def open_leaf(self) -> Leaf | None:
        raise NotImplementedError


class _Counter(_ConditionNode):
    """A node that counts signals, or their sources, that match one of its leaves. A leaf is such a
    node with a count of one."""

    def __init__(self, condition: Leaf | Count, read: Read) -> None:
        self._condition = condition
        self._read = read
        self.leaves = tuple(_leaves(condition))
        self._needed = condition.n if isinstance(condition, Count) else 1
        self._by_source = isinstance(condition, Count) and condition.distinct == "sources"
        self._counted: dict[object, int] = {}
        """The place of the first signal that was counted, by source or by place."""
        self._repeated = 0
        """How many equal signals were counted in addition to ``_counted``."""
        self._seen: list[int] = []
        """The places of the signals that matched before the node was met."""

    def offer(self, place: int, signal: SignalView, times: int) -> tuple[bool, bool]:
        if not any(matches(leaf, signal, self._read) for leaf in self.leaves):
            return False, False
        if self.met:
            return True, False
        self._seen.append(place)
        identity: object = signal.source if self._by_source else place
        if identity in self._counted:
            return True, False
        self._counted[identity] = place
        if not self._by_source:
            self._repeated += times - 1
        self.met = len(self._counted) + self._repeated >= self._needed
        return True, True

    def satisfiers(self) -> Iterator[int]:
        return iter(self._counted.values())

    def spent(self) -> Iterator[int]:
        return iter(self._seen)

    matches = spent

    def possible(self, now: int) -> bool:
        return self.met or any(_is_open(leaf, now) for leaf in self.leaves)

    def missing(self) -> Iterator[str]:
        if self._needed == 1:
            yield show(self._condition)
        else:
            yield f"{show(self._condition)}, {len(self._counted)} so far"

    def here(self) -> Iterator[str]:
        if self.met:
            yield show(self._condition)

    def open_leaf(self) -> Leaf | None:
        return self.leaves[0]


class _Group(_ConditionNode):
    """A node that is met when *needed* of its members are met."""

    def __init__(self, condition: AllOf | AnyOf | Count, needed: int, read: Read) -> None:
        self._condition = condition
        self._needed = needed
        self._read = read
        self._members = [_node(member, read) for member in condition.of]
        self.leaves = tuple(leaf for member in self._members for leaf in member.leaves)

    def offer(self, place: int, signal: SignalView, times: int) -> tuple[bool, bool]:
        if self.met:
            return any(matches(leaf, signal, self._read) for leaf in self.leaves), False
        answers = [member.offer(place, signal, times) for member in self._members]
        self.met = len(self._met_members()) >= self._needed
        return any(matched for matched, _ in answers), any(counted for _, counted in answers)

    def _met_members(self) -> list[_ConditionNode]:
        return [member for member in self._members if member.met]

    def satisfiers(self) -> Iterator[int]:
        return (place for member in self._met_members() for place in member.satisfiers())

    def spent(self) -> Iterator[int]:
        return (place for member in self._met_members() for place in member.spent())

    def matches(self) -> Iterator[int]:
        return (place for member in self._members for place in member.matches())

    def possible(self, now: int) -> bool:
        return sum(member.possible(now) for member in self._members) >= self._needed

    def missing(self) -> Iterator[str]:
        if self._needed == len(self._members):
            for member in self._members:
                if not member.met:
                    yield from member.missing()
        else:
            open_members = ", ".join(
                " and ".join(member.missing()) for member in self._members if not member.met
            )
            missing = self._needed - len(self._met_members())
            yield f"{'any' if self._needed == 1 else missing} of ({open_members})"

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
    """Return whether a signal meets a leaf."""
    if not _is_addressed_to(leaf, signal) or (leaf.name is not None and leaf.name != signal.name):
        return False
    return leaf.payload is None or fits(leaf.payload, read(signal))


def _is_addressed_to(leaf: Leaf, signal: SignalView) -> bool:
    """Return whether a signal goes to the wait or the name of a leaf, whether or not it matches."""
    if isinstance(leaf, SignalToWait):
        return signal.wait_id == leaf.wait
    if isinstance(leaf, AnySignal):
        return signal.wait_id is None
    return signal.wait_id is None and signal.name == leaf.name


def fits(pattern: Any, payload: Any) -> bool:
    """Return whether plain data contains *pattern*: a mapping has at least its fields, a list fits
    item by item, and any other value is equal. A boolean equals no number."""
    if isinstance(pattern, Mapping):
        return isinstance(payload, Mapping) and all(
            name in payload and fits(value, payload[name]) for name, value in pattern.items()
        )
    if isinstance(pattern, list | tuple):
        if not isinstance(payload, list | tuple) or len(pattern) != len(payload):
            return False
        return all(
            fits(wanted_item, item) for wanted_item, item in zip(pattern, payload, strict=True)
        )
    if isinstance(pattern, bool) or isinstance(payload, bool):
        return pattern is payload
    return bool(pattern == payload)


def _is_open(leaf: Leaf, now: int) -> bool:
    """Return whether a signal can still reach a leaf: an issued wait expires."""
    return not isinstance(leaf, SignalToWait) or leaf.until is None or leaf.until > now


# Inspection


def _leaves(condition: Condition) -> Iterator[Leaf]:
    """Yield the leaves of a condition, depth first."""
    if isinstance(condition, Leaf):
        yield condition
    else:
        for member in condition.of:
            yield from _leaves(member)


def issued_waits(condition: Condition) -> dict[str, SignalToWait]:
    """Return the issued waits of a condition, by their ids."""
    return {leaf.wait: leaf for leaf in _leaves(condition) if isinstance(leaf, SignalToWait)}


def next_expiry(condition: Condition, now: int) -> int | None:
    """Return when the next issued wait of a condition expires: from then on the condition may be
    impossible to meet. None if no wait expires after *now*."""
    return min(
        (
            wait.until
            for wait in issued_waits(condition).values()
            if wait.until is not None and wait.until > now
        ),
        default=None,
    )


def concerns(condition: Condition, signal: SignalView) -> bool:
    """Return whether a signal is addressed to one of the leaves of a condition."""
    return any(_is_addressed_to(leaf, signal) for leaf in _leaves(condition))


def reads_payloads(condition: Condition) -> bool:
    """Return whether the evaluation of a condition reads the payloads of signals."""
    return any(leaf.payload is not None for leaf in _leaves(condition))


def show(condition: Condition) -> str:
    """Return a condition as text for people."""
    if isinstance(condition, Leaf):
        return _show_leaf(condition)
    members = ", ".join(show(member) for member in condition.of)
    if isinstance(condition, AllOf):
        return f"all of ({members})"
    if isinstance(condition, AnyOf):
        return f"any of ({members})"
    unit = {"signals": " signals", "sources": " distinct sources", "waits": ""}[condition.distinct]
    if len(condition.of) > 1:
        members = f"({members})"
    return f"{condition.n}{unit} of {members}"


def _show_leaf(leaf: Leaf) -> str:
    if isinstance(leaf, ReleaseOnly):
        return "an operator"
    if isinstance(leaf, SignalNamed):
        text = repr(leaf.name)
    elif isinstance(leaf, AnySignal):
        text = "any signal"
    else:
        text = f"the wait {leaf.label!r}"
        if leaf.name is not None:
            text += f" with a signal {leaf.name!r}"
    if leaf.payload is not None:
        text += f" with {msgspec.json.encode(leaf.payload).decode()}"
    return text
