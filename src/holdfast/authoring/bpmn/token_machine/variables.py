"""Variables: what a token sees, and where a value is written.

A token sees its own locals, those of its loop, and the variables of its scope and of all scopes
around it. A value goes to the nearest of these that declares the name, or else to the instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.authoring.bpmn.token_machine.state import MachineState, ProcessToken, ScopeState


class VariableView(Mapping[str, Any]):
    """The variables that are visible at a place, the innermost first."""

    __slots__ = ("layers",)

    def __init__(self, layers: list[dict[str, Any]]) -> None:
        self.layers: list[dict[str, Any]] = layers

    def __getitem__(self, name: str) -> Any:
        for layer in self.layers:
            if name in layer:
                return layer[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.flat())

    def __len__(self) -> int:
        return len(self.flat())

    def flat(self) -> dict[str, Any]:
        """Return all visible variables as one dict."""
        if len(self.layers) == 1:
            return dict(self.layers[0])
        merged: dict[str, Any] = {}
        for layer in reversed(self.layers):
            merged.update(layer)
        return merged


def seen_by(state: MachineState, token: ProcessToken) -> VariableView:
    """Return the variables that a token sees."""
    layers = [layer for layer, _ in _layers(state, token)]
    return VariableView(layers)


def seen_in(state: MachineState, scope: ScopeState) -> VariableView:
    """Return the variables that are visible in a scope."""
    return VariableView([layer for layer, _ in _scope_layers(state, scope)])


def locals_of(state: MachineState, token: ProcessToken) -> dict[str, Any]:
    """Return the locals of a token and of the loop that it is an instance of."""
    body = state.tokens.get(token.body or 0)
    around = (body.locals or {}) if body is not None else {}
    return {**around, **(token.locals or {})}


def write(state: MachineState, token: ProcessToken, values: Mapping[str, Any]) -> None:
    """Write values from the place of a token."""
    if values:
        _write(state, list(_layers(state, token)), values)


def write_outside(state: MachineState, token: ProcessToken, values: Mapping[str, Any]) -> None:
    """Write values from outside the locals of a token: the results of its output mappings."""
    if values:
        layers = [entry for entry in _layers(state, token) if entry[0] is not token.locals]
        _write(state, layers, values)


def write_in(state: MachineState, scope: ScopeState, values: Mapping[str, Any]) -> None:
    """Write values from the place of a scope."""
    if values:
        _write(state, list(_scope_layers(state, scope)), values)


Layer = tuple[dict[str, Any], frozenset[str]]


def _write(state: MachineState, layers: list[Layer], values: Mapping[str, Any]) -> None:
    instance = layers[-1][0]
    for name, value in values.items():
        for layer, declared in layers:
            if name in layer or name in declared:
                layer[name] = value
                break
        else:
            instance[name] = value
    state.conditions_changed = True


def _layers(state: MachineState, token: ProcessToken) -> Iterator[Layer]:
    if token.locals is not None:
        yield token.locals, frozenset()
    body = state.tokens.get(token.body or 0)
    if body is not None and body.locals is not None:
        yield body.locals, frozenset()
    yield from _scope_layers(state, state.scopes[token.scope])


def _scope_layers(state: MachineState, scope: ScopeState | None) -> Iterator[Layer]:
    while scope is not None:
        yield scope.variables, state.spec(scope).declares
        owner = state.tokens.get(scope.owner or 0)
        if owner is not None:
            if owner.locals is not None:
                yield owner.locals, frozenset()
            body = state.tokens.get(owner.body or 0)
            if body is not None and body.locals is not None:
                yield body.locals, frozenset()
        scope = state.scopes.get(scope.parent or 0)
