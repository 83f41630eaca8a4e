"""The signing keys of waits, as one execution reads them."""

from __future__ import annotations

from holdfast.core.tokens import SigningKey, wait_token
from holdfast.engine.runtime.context import WorkerContext


class SigningKeys:
    """Reads the signing keys for the code of one run.

    Code on the program's loop must not read the store: for it, the keys of the last turn are kept
    in memory.
    """

    __slots__ = ("_context", "_keeps", "kept")

    def __init__(self, context: WorkerContext) -> None:
        self._context: WorkerContext = context
        self._keeps: bool = False
        self.kept: list[SigningKey] | None = None
        """The keys in memory, which each turn must read again; None if no code needs them."""

    def keep(self, *, at_once: bool) -> None:
        """Keep the keys in memory: from now on if *at_once*, otherwise after their first use."""
        self._keeps = True
        if at_once:
            self.refresh()

    def refresh(self) -> None:
        """Read the keys that are kept: they may have been rotated."""
        self.kept = self._context.store.keys.all()

    def read(self) -> list[SigningKey]:
        """Return the keys as they are stored now."""
        keys = self._context.store.keys.all()
        if self._keeps:
            self.kept = keys
        return keys

    def token(self, wait_id: str, kid: str) -> str:
        """Return the token of a wait, for the code of the workflow."""
        keys = self.kept
        if keys is None:
            keys = self._context.store.keys.all()
        return wait_token(keys, wait_id, self._context.sealer.secrets.reveal)
