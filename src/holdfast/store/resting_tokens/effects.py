"""Apply the effects of a run on its tokens at rest, in the order of this file."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.store.database import Transaction
from holdfast.store.effects import Commit, applies
from holdfast.store.resting_tokens.operations import ClearTokens, SaveTokens


@applies(SaveTokens)
def save_tokens(tx: Transaction, commit: Commit, effects: Sequence[SaveTokens]) -> None:
    """Write and delete tokens."""
    for effect in effects:
        rows = [
            {"run_id": commit.run_id, **msgspec.structs.asdict(token)} for token in effect.tokens
        ]
        for row in rows:
            row["token"] = row.pop("id")
        tx.many("save_token", rows)
        tx.many(
            "remove_token",
            [{"run_id": commit.run_id, "token": token} for token in effect.removed],
        )


@applies(ClearTokens)
def clear_tokens(tx: Transaction, commit: Commit, effects: Sequence[ClearTokens]) -> None:
    """Delete all tokens of a run that ends."""
    tx.many("delete_resting_token", [{"run_id": commit.run_id}])
