"""Effects: rows that are written together with a run's progress, one class per kind.

An `Advance` carries a list of effects. A feature declares its effects beside its operations, and
registers in its package the function that writes them (`@applies`), so that `advance` knows no
feature by name.

Invariants:
- All effects of one kind are applied by one call, so that their rows are written together.
- Kinds are applied in the order of their phases. This order is a lock order: rows of the run, other
  runs, graphs, budget lines. Within a phase, the features come in the order of their names, and
  the kinds of a feature in the order of their functions: a wait that is opened and closed by one
  commit is closed. The order in which modules happen to be imported has no influence.
- Only effects of the phase BEFORE_EVENTS refuse a commit by their answer, and they do so before its
  first write. An effect that may raise after a write has ``may_refuse_late``, and needs a
  savepoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

import msgspec

from holdfast.core.payload import Payload
from holdfast.core.status import Status


class Phase(IntEnum):
    """When an effect is applied, in this order."""

    BEFORE_EVENTS = 0
    """Before anything is written: the effect may refuse the commit."""
    OWN_ROWS = 1
    """Rows that belong to the run: output, waits, gates, signals that it has consumed."""
    NEW_RUNS = 2
    OTHER_RUNS = 3
    """After the new runs: a request to stop the children also reaches new ones."""
    END = 4
    GRAPH = 5
    BUDGETS = 6
    """Last, because budget lines are locked after runs."""


class Effect(msgspec.Struct):
    """Rows that are written together with a run's progress."""

    phase: ClassVar[Phase] = Phase.OWN_ROWS
    may_refuse_late: ClassVar[bool] = False
    """Whether applying it may raise after a write, so that the commit needs a savepoint."""
    answers: ClassVar[str | None] = None
    """The field of `Advanced` that the apply function returns."""

    @property
    def locks(self) -> Sequence[str]:
        """The ids of the other runs that it is known to write."""
        return ()


class RevisionChanged(msgspec.Struct):
    """The run changed while its holder was parking it; nothing was written."""

    revision: int


E = TypeVar("E", bound=Effect)
Apply = Callable[[Any, "Commit", Sequence[Any]], Any]
F = TypeVar("F", bound=Apply)

_APPLY: dict[type[Effect], Apply] = {}
_ORDER: dict[type[Effect], tuple[Phase, str, int]] = {}


def applies(kind: type[Effect]) -> Callable[[F], F]:
    """Register the decorated function: it applies all effects of *kind* of one commit."""

    def register(function: F) -> F:
        assert kind not in _APPLY, f"{kind.__name__} is applied by two functions"
        _APPLY[kind] = function
        # The number orders the functions of one module; modules are imported in any order.
        _ORDER[kind] = (kind.phase, kind.__module__, len(_ORDER))
        return function

    return register


def registered() -> frozenset[type[Effect]]:
    """Return the kinds of effects that can be applied."""
    return frozenset(_APPLY)


class Commit:
    """A commit as the functions that apply its effects see it."""

    __slots__ = (
        "_by_kind",
        "calls_body",
        "descendants",
        "generation",
        "graph_id",
        "payloads",
        "result",
        "run_id",
        "status",
    )

    def __init__(
        self, run_id: str, generation: int, effects: Iterable[Effect], *, calls_body: bool
    ) -> None:
        self.run_id: str = run_id
        self.generation: int = generation
        self.calls_body: bool = calls_body
        """Whether user code has written in this transaction: a refusal must raise, so that its
        writes are rolled back."""
        self.status: Status | None = None
        """The new status of the run."""
        self.result: bytes | None = None
        self.graph_id: str | None = None
        """The graph that the run is a member of, if the run ends."""
        self.payloads: Sequence[Payload] = ()
        self.descendants: Sequence[str] | None = None
        """The live descendants of a run that ends, if they were read before."""
        self._by_kind: dict[type[Effect], list[Any]] = {}
        for effect in effects:
            self._by_kind.setdefault(type(effect), []).append(effect)

    def of(self, kind: type[E]) -> Sequence[E]:
        """Return the effects of a kind."""
        return self._by_kind.get(kind, ())

    def refusal(self, tx: Any) -> Any:
        """Apply the effects that precede the events. Return the answer of an effect that refuses
        the commit, else None."""
        for kind, effects in self._by_kind.items():
            if kind.phase is Phase.BEFORE_EVENTS:
                refused = _APPLY[kind](tx, self, effects)
                if refused is not None:
                    return refused
        return None

    def apply(self, tx: Any, answer: Any) -> None:
        """Apply the effects that follow the events, and complete the answer of the commit."""
        for kind in sorted(self._by_kind, key=_ORDER.__getitem__):
            if kind.phase is not Phase.BEFORE_EVENTS:
                value = _APPLY[kind](tx, self, self._by_kind[kind])
                if kind.answers is not None:
                    setattr(answer, kind.answers, value)
