"""The events and effects that the next commit of a run writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.core.commands import Finish
from holdfast.core.events import Event
from holdfast.core.runs import Fanout, NewRun
from holdfast.store.effects import E, Effect
from holdfast.store.runs.operations import StartChildren
from holdfast.store.signals.operations import TakeSignals


class CommitBuffer:
    """The events and effects of the next commit of one run.

    Most commits have one event and nothing else, so the effects are created when the first is
    added.
    """

    __slots__ = ("_effects", "events", "finish")

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.finish: Finish | None = None
        self._effects: dict[type[Effect], list[Effect]] | None = None

    def add(self, effect: Effect) -> None:
        """Add an effect."""
        if self._effects is None:
            self._effects = {}
        self._effects.setdefault(type(effect), []).append(effect)

    def take(self, signal_ids: Sequence[int]) -> None:
        """Consume signals."""
        self.add(TakeSignals(signal_ids))

    def start(self, children: Iterable[NewRun], fanout: Fanout | None = None) -> None:
        """Start children; *fanout* counts those of a map."""
        starts = self.of(StartChildren)
        if not starts:
            self.add(StartChildren([], []))
            starts = self.of(StartChildren)
        # One effect for all, so that the number of children is known at once.
        (effect,) = starts
        assert isinstance(effect.children, list) and isinstance(effect.fanouts, list)
        effect.children.extend(children)
        if fanout is not None:
            effect.fanouts.append(fanout)

    @property
    def children(self) -> Sequence[NewRun]:
        """The children that the commit starts."""
        starts = self.of(StartChildren)
        if not starts:
            return ()
        return starts[0].children

    @property
    def has_effects(self) -> bool:
        """Whether the commit has more than events and the end."""
        return self._effects is not None

    @property
    def effects(self) -> list[Effect]:
        """All effects of the commit."""
        if self._effects is None:
            return []
        return [effect for effects in self._effects.values() for effect in effects]

    def of(self, kind: type[E]) -> Sequence[E]:
        """Return the effects of a kind."""
        if self._effects is None:
            return ()
        return self._effects.get(kind, ())  # type: ignore[return-value]

    def drop(self, kind: type[E], count: int) -> list[E]:
        """Remove and return the first effects of a kind."""
        effects = list(self.of(kind))
        if self._effects is not None and effects:
            self._effects[kind] = list[Effect](effects[count:])
        return effects[:count]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return self._effects is None and not self.events and self.finish is None

    def has_only(self, kind: type[Effect]) -> bool:
        """Return whether no effect is of another kind."""
        return self._effects is None or all(each is kind for each in self._effects)

    def taken_ids(self) -> set[int]:
        """Return the ids of the signals that this commit takes."""
        return {signal for effect in self.of(TakeSignals) for signal in effect.ids}
