"""The tokens at rest, as the rows that people and programs read."""

from __future__ import annotations

from holdfast.authoring.bpmn.compile import ProcessGraph
from holdfast.authoring.bpmn.token_machine.state import (
    MachineState,
    ProcessToken,
)
from holdfast.core.commands import Command, Rest
from holdfast.core.resting_tokens import RestingToken


class TokenRows:
    """Remembers the tokens that were shown, and reports what has changed since."""

    def __init__(self, graph: ProcessGraph) -> None:
        self._graph: ProcessGraph = graph
        self._shown: dict[int, RestingToken] = {}
        self._is_complete: bool = False
        """Whether all tokens were shown once; then only touched tokens can differ."""

    def is_working(self, state: MachineState) -> bool:
        """Return whether a handler of this process is being executed: the run does not rest."""
        return state.working > 0

    def changes(self, state: MachineState) -> list[Command]:
        """Return the command that shows the tokens that changed; none if nothing changed."""
        ids = sorted(state.touched) if self._is_complete else list(state.tokens)
        state.touched.clear()
        self._is_complete = True
        changed = []
        removed = []
        for id in ids:
            token = state.tokens.get(id)
            if token is None:
                if self._shown.pop(id, None) is not None:
                    removed.append(str(id))
                continue
            row = resting_token(state, token)
            if self._shown.get(id) != row:
                self._shown[id] = row
                changed.append(row)
        if not changed and not removed:
            return []
        return [Rest(changed, removed)]


def resting_token(state: MachineState, token: ProcessToken) -> RestingToken:
    """Return a token as it is shown."""
    scope = state.scopes[token.scope]
    status = "waiting"
    if state.suspended:
        status = "suspended"
    elif token.stage != "active":
        status = "ready"
    elif token.waits_for == "handler":
        status = "executing"
    return RestingToken(
        id=str(token.id),
        element=token.node,
        kind=state.graph.nodes[token.node].element.kind,
        scope="" if scope.parent is None else scope.spec,
        status=status,
        mode=token.mode,
        attempt=token.attempt,
        waits_for=token.waits_for,
        until=token.until,
        since=token.since,
        version=token.version,
    )
