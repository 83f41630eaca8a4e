"""Tokens at rest: the rows that show where the run of a model rests.

The first ``Rest`` of an execution has all tokens, later ones only the changes. The rows are written
when the run parks, and only the changed ones.
"""

from __future__ import annotations

from holdfast.core.commands import Rest
from holdfast.core.resting_tokens import RestingToken
from holdfast.engine.execution.pending.base import Execution, Handler
from holdfast.store.effects import Effect
from holdfast.store.resting_tokens.operations import SaveTokens


class RestingTokens:
    """The tokens of one execution that are not written yet."""

    __slots__ = ("_changed", "_removed")

    def __init__(self) -> None:
        self._changed: dict[str, RestingToken] = {}
        self._removed: set[str] = set()

    def begin(self, stored: list[RestingToken], tokens: list[RestingToken]) -> None:
        """Compare all tokens with the rows that an earlier holder has written."""
        before = {token.id: token for token in stored}
        for token in tokens:
            if before.pop(token.id, None) != token:
                self._changed[token.id] = token
        self._removed.update(before)

    def change(self, command: Rest) -> None:
        """Note changes."""
        for token in command.tokens:
            self._changed[token.id] = token
            self._removed.discard(token.id)
        for token_id in command.removed:
            self._changed.pop(token_id, None)
            self._removed.add(token_id)

    def take(self) -> Effect | None:
        """Return the effect that writes the changes; None if there are none."""
        if not self._changed and not self._removed:
            return None
        effect = SaveTokens(list(self._changed.values()), sorted(self._removed))
        self._changed = {}
        self._removed = set()
        return effect


def _rest(run: Execution, command: Rest) -> None:
    if run.resting is None:
        run.resting = RestingTokens()
        stored = []
        if run.state.seq:  # it has a history, and may have rows
            stored = run.context.store.resting_tokens.of_run(run.state.run.id)
        run.resting.begin(stored, list(command.tokens))
    else:
        run.resting.change(command)


HANDLERS: dict[type, Handler] = {Rest: _rest}
