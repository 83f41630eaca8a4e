"""Effects by which a run shows its tokens at rest."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.resting_tokens import RestingToken
from holdfast.store.effects import Effect


class SaveTokens(Effect):
    """Write the tokens that have changed, and delete the others that rest no more."""

    tokens: Sequence[RestingToken]
    removed: Sequence[str] = ()


class ClearTokens(Effect):
    """Delete all tokens of the run."""
