"""Evaluate the conditions that a run waits for, by the signals that no wait has taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions.model import Condition
from holdfast.core.envelope import is_sealed
from holdfast.store.database import Transaction


class UntakenSignal(msgspec.Struct):
    """A signal that no wait has taken, with the fields that conditions evaluate."""

    name: str
    wait_id: str | None
    source: str | None
    payload: bytes = b"null"


def condition_progress(
    tx: Transaction,
    run_id: str,
    wait: Mapping[str, Any],
    condition: Condition,
    new: UntakenSignal | None = None,
) -> conditions.ConditionProgress | None:
    """Return the progress of a condition by the signals so far.

    None if the condition reads payloads, and they or the *new* one are sealed.
    """
    before = list(_untaken_signals(tx, run_id, condition))
    # Sealed payloads can be read only by a worker, which has the codec and the keys.
    if conditions.reads_payloads(condition):
        known = [signal for signal, _ in before] + ([] if new is None else [new])
        if wait.get("sealed") or _any_sealed(known):
            return None
    tally = conditions.ConditionProgress(condition, _read)
    for signal, times in before:
        tally.offer(signal, times)
    return tally


def _untaken_signals(
    tx: Transaction, run_id: str, condition: Condition
) -> Iterator[tuple[UntakenSignal, int]]:
    """Yield the untaken signals with their number.

    If the condition reads no payloads they are counted by kind, which saves reading each of them.
    """
    if conditions.reads_payloads(condition):
        for row in tx.rows("signals_to_judge", run_id=run_id):
            yield (
                UntakenSignal(row["name"], row["wait_id"], row["source"], bytes(row["payload"])),
                1,
            )
    else:
        for row in tx.rows("signals_by_kind", run_id=run_id):
            yield UntakenSignal(row["name"], row["wait_id"], row["source"]), row["times"]


def _any_sealed(signals: Sequence[UntakenSignal]) -> bool:
    return any(is_sealed(signal.payload) for signal in signals)


def _read(signal: UntakenSignal) -> Any:
    return msgspec.json.decode(signal.payload)
