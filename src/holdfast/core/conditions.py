"""What a run can wait for: signals, waits that were handed out, and trees of them. Pure.

A tree is judged over all signals that no wait has taken, in the order in which they came, and each node counts for itself. It is
met by the first signal that makes it whole; what comes after that one is not its concern. Once met it stays met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from holdfast.core.codec import JsonCodec
from holdfast.core.texts import is_one_of, is_storable
from holdfast.errors import BadCondition, NotEncodable
from holdfast.errors.base import shown

DEEPEST = 4
"""How many levels of all-of, any-of and count may stand in each other."""

LARGEST = 8192
"""Bytes of a condition as JSON, at most."""

_JSON = JsonCodec()

DISTINCT = ("signals", "sources", "waits")


class Named(msgspec.Struct, frozen=True, tag="signal", omit_defaults=True):
    """A signal of that name to the run, with this in its payload."""

    name: str
    payload: dict[str, Any] | None = None


class Handed(msgspec.Struct, frozen=True, tag="wait", omit_defaults=True):
    """A signal to a wait that was handed out, of any name unless one is given. ``step`` made it, ``until`` it is open."""

    wait: str
    step: str
    label: str
    until: int | None = None
    name: str | None = None
    payload: dict[str, Any] | None = None


class AllOf(msgspec.Struct, frozen=True, tag="all_of"):
    """All of these."""

    of: tuple[Condition, ...]


class AnyOf(msgspec.Struct, frozen=True, tag="any_of"):
    """One of these."""

    of: tuple[Condition, ...]


class Count(msgspec.Struct, frozen=True, tag="count"):
    """So many: of the signals that match, of those who sent them, or of the conditions that are met."""

    n: int
    of: tuple[Condition, ...]
    distinct: str = "signals"


Leaf = Named | Handed
Condition = Named | Handed | AllOf | AnyOf | Count


class Effect(StrEnum):
    """What a signal came to when it was delivered."""

    SATISFIED = "satisfied"
    """What the run waited for is whole with it."""
    KEPT = "kept"
    """It counts, or lies there until something waits for it."""
    DUPLICATE = "duplicate"
    """It matches, but what it stands for has been counted already."""
    IGNORED = "ignored"
    """The run waits for something of the kind, but this does not match."""


class Heard(Protocol):
    """A signal, as far as conditions care."""

    name: str
    wait_id: str | None
    source: str | None


Read = Callable[[Any], Any]
"""Returns the payload of a signal as plain data."""


# Judging


class Tally:
    """What of a condition is met so far. Signals are offered one by one, the oldest first."""

    def __init__(self, condition: Condition, read: Read) -> None:
        self._root = _node(condition, read)
        self._offered = 0

    @property
    def met(self) -> bool:
        """Whether the condition is whole."""
        return self._root.met

    def offer(self, signal: Heard, times: int = 1) -> Effect:
        """Take the next signal into account and say what it came to. A condition that is met lets it lie. The same signal several
        *times* at once is for those who only want to know whether it is met: who met it cannot be told then."""
        place, self._offered = self._offered, self._offered + 1
        if self._root.met or not any(_is_about(leaf, signal) for leaf in self._root.leaves):
            return Effect.KEPT
        matched, counted = self._root.offer(place, signal, times)
        if self._root.met:
            return Effect.SATISFIED
        if counted:
            return Effect.KEPT
        return Effect.DUPLICATE if matched else Effect.IGNORED

    def offer_all(self, signals: Sequence[Heard]) -> Tally:
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
        """Return the places of the signals that nobody else shall have: those by which it is met, and those that were not counted
        because they repeat one of them. Of a condition that is not met, all that matched."""
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


class _Node:
    """One node and what it has counted. ``seen`` is what matched before it was met."""

    met = False
    leaves: tuple[Leaf, ...]

    def offer(self, place: int, signal: Heard, times: int) -> tuple[bool, bool]:
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


class _Counter(_Node):
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

    def offer(self, place: int, signal: Heard, times: int) -> tuple[bool, bool]:
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


class _Group(_Node):
    """So many of several conditions."""

    def __init__(self, condition: AllOf | AnyOf | Count, wanted: int, read: Read) -> None:
        self._condition, self._wanted = condition, wanted
        self._members, self._read = [_node(member, read) for member in condition.of], read
        self.leaves = tuple(leaf for member in self._members for leaf in member.leaves)

    def offer(self, place: int, signal: Heard, times: int) -> tuple[bool, bool]:
        if self.met:
            return any(matches(leaf, signal, self._read) for leaf in self.leaves), False
        answers = [member.offer(place, signal, times) for member in self._members]
        self.met = len(self._good()) >= self._wanted
        return any(matched for matched, _ in answers), any(counted for _, counted in answers)

    def _good(self) -> list[_Node]:
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
            open_ones = ", ".join(" and ".join(member.missing()) for member in self._members if not member.met)
            yield f"{'any' if self._wanted == 1 else self._wanted - len(self._good())} of ({open_ones})"

    def here(self) -> Iterator[str]:
        for member in self._members:
            yield from member.here()

    def open_leaf(self) -> Leaf | None:
        return next((member.open_leaf() for member in self._members if not member.met), None)


def _node(condition: Condition, read: Read) -> _Node:
    if isinstance(condition, AllOf):
        return _Group(condition, len(condition.of), read)
    if isinstance(condition, AnyOf):
        return _Group(condition, 1, read)
    if isinstance(condition, Count) and condition.distinct == "waits":
        return _Group(condition, condition.n, read)
    return _Counter(condition, read)


def matches(leaf: Leaf, signal: Heard, read: Read) -> bool:
    """Say whether a signal is what a leaf waits for."""
    if not _is_about(leaf, signal) or (leaf.name is not None and leaf.name != signal.name):
        return False
    return leaf.payload is None or fits(leaf.payload, read(signal))


def _is_about(leaf: Leaf, signal: Heard) -> bool:
    """Say whether a signal is addressed to what a leaf waits for, whether or not it matches."""
    if isinstance(leaf, Handed):
        return signal.wait_id == leaf.wait
    return signal.wait_id is None and signal.name == leaf.name


def fits(wanted: Any, found: Any) -> bool:
    """Say whether plain data has in it what is wanted: a mapping has these fields, whatever else it has; the rest is equal."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(name in found and fits(value, found[name]) for name, value in wanted.items())
    if isinstance(wanted, list | tuple):
        same = isinstance(found, list | tuple) and len(wanted) == len(found)
        return same and all(fits(one, other) for one, other in zip(wanted, found, strict=True))
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    return bool(wanted == found)


def _is_open(leaf: Leaf, now: int) -> bool:
    return not isinstance(leaf, Handed) or leaf.until is None or leaf.until > now


# Looking


def _leaves(condition: Condition) -> Iterator[Leaf]:
    if isinstance(condition, Named | Handed):
        yield condition
    else:
        for member in condition.of:
            yield from _leaves(member)


def handed_out(condition: Condition) -> dict[str, Handed]:
    """Return the waits that were handed out and that a condition speaks of, by their ids."""
    return {leaf.wait: leaf for leaf in _leaves(condition) if isinstance(leaf, Handed)}


def next_expiry(condition: Condition, now: int) -> int | None:
    """Say when the next of its waits expires: then the condition may have become hopeless."""
    return min(
        (wait.until for wait in handed_out(condition).values() if wait.until is not None and wait.until > now), default=None
    )


def concerns(condition: Condition, signal: Heard) -> bool:
    """Say whether a signal is addressed to something that a condition speaks of."""
    return any(_is_about(leaf, signal) for leaf in _leaves(condition))


def reads_payloads(condition: Condition) -> bool:
    """Say whether a signal's payload decides about it."""
    return any(leaf.payload is not None for leaf in _leaves(condition))


def show(condition: Condition) -> str:
    """Write a condition for people."""
    if isinstance(condition, Named | Handed):
        return _show_leaf(condition)
    members = ", ".join(show(member) for member in condition.of)
    if isinstance(condition, AllOf):
        return f"all of ({members})"
    if isinstance(condition, AnyOf):
        return f"any of ({members})"
    what = {"signals": " signals", "sources": " distinct sources", "waits": ""}[condition.distinct]
    return f"{condition.n}{what} of ({members})" if len(condition.of) > 1 else f"{condition.n}{what} of {members}"


def _show_leaf(leaf: Leaf) -> str:
    text = repr(leaf.name) if isinstance(leaf, Named) else f"the wait {leaf.label!r}"
    if isinstance(leaf, Handed) and leaf.name is not None:
        text += f" with a signal {leaf.name!r}"
    if leaf.payload is not None:
        text += f" with {msgspec.json.encode(leaf.payload).decode()}"
    return text


# Checking


def checked(condition: Condition) -> Condition:
    """Return a condition; refuse one that nothing could meet, or that is too big. Raises BadCondition."""
    _check(condition, 0)
    size = len(msgspec.json.encode(condition))
    if size > LARGEST:
        raise BadCondition(why=f"it takes {size} bytes, and at most {LARGEST} are kept")
    return condition


def _check(condition: Condition, depth: int) -> None:
    if isinstance(condition, Named | Handed):
        _check_leaf(condition)
        return
    if depth >= DEEPEST:
        raise BadCondition(condition=_brief(condition), why=f"it stands {depth + 1} levels deep, and {DEEPEST} are the most")
    name = {AllOf: "all_of", AnyOf: "any_of", Count: "count"}[type(condition)]
    if not condition.of:
        raise BadCondition(condition=name, why="it is empty: name what it waits for")
    if isinstance(condition, Count):
        _check_count(condition)
    for member in condition.of:
        _check(member, depth + 1)


def _check_count(condition: Count) -> None:
    n, kind = condition.n, condition.distinct
    if not is_one_of(kind, DISTINCT):
        raise BadCondition(condition="count", why=f"distinct={shown(kind)} is none of {', '.join(DISTINCT)}")
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n < 2**62:
        raise BadCondition(condition="count", why=f"it counts to a whole number from 1 on, not to {shown(n)}")
    if kind == "waits" and n > len(condition.of):
        raise BadCondition(condition="count", why=f"it wants {n} of {len(condition.of)}: there are not so many")
    if kind != "waits" and not all(isinstance(member, Named | Handed) for member in condition.of):
        raise BadCondition(
            condition="count", why=f'it counts {kind}, of names and waits only; other conditions: distinct="waits"'
        )


def _check_leaf(leaf: Leaf) -> None:
    name = leaf.name
    if (isinstance(leaf, Named) or name is not None) and (not isinstance(name, str) or not name.strip() or not is_storable(name)):
        raise BadCondition(condition=shown(name), why="a signal has a name")
    if leaf.payload is None:
        return
    if not isinstance(leaf.payload, Mapping) or not all(isinstance(field, str) for field in leaf.payload):
        raise BadCondition(
            condition=_brief(leaf), why="a payload is matched by a mapping of its fields, such as {'currency': 'EUR'}"
        )
    try:
        _JSON.encode(leaf.payload, what="it")
    except NotEncodable as error:
        raise BadCondition(condition=_brief(leaf), why=f"a payload is matched by plain data: {error.facts['value']}") from None


def _brief(condition: Condition) -> str:
    if isinstance(condition, Named):
        return str(condition.name)
    return condition.label if isinstance(condition, Handed) else type(condition).__name__
