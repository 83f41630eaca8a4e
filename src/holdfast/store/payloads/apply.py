"""Store offloaded payloads with the rows that refer to them, and delete them with the last such
row.

Lock order: payloads by digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from holdfast.core.envelope import digest_of, digests_of
from holdfast.core.events import Event, EventKind
from holdfast.core.payload import Payload
from holdfast.errors import BadOption
from holdfast.store.database import Row, Transaction
from holdfast.store.history import append
from holdfast.store.installation import HALF_COPIED
from holdfast.store.payloads.operations import CopyPayloads, Reseal, SaveSetting

Ask = Callable[..., list[Row]]


def keep(tx: Transaction, run_id: str, payloads: Iterable[Payload]) -> None:
    """Store payloads that a run refers to from now on. Existing ones are not written again."""
    # Sorted: two transactions that store the same payloads must not deadlock.
    for payload in sorted(payloads, key=lambda payload: payload.digest):
        insert_payload(tx, payload)
        tx.change("use_payload", run_id=run_id, digest=payload.digest)


def insert_payload(tx: Transaction, payload: Payload) -> None:
    """Store a payload, or protect the existing one from collection."""
    made = tx.rows(
        "keep_payload",
        digest=payload.digest,
        key=payload.key,
        form=payload.form,
        size=payload.size,
        stored=payload.stored,
        parts=len(payload.parts),
        now=tx.now,
    )
    if made and made[0]["created"]:
        parts: list[Row] = [
            {"digest": payload.digest, "part": number, "data": part}
            for number, part in enumerate(payload.parts)
        ]
        tx.many("insert_payload_part", parts)


def refer(tx: Transaction, run_id: str, digests: Iterable[bytes]) -> bool:
    """Record that a run refers to existing payloads. Return False if one of them does not exist."""
    for digest in sorted(digests):
        if not tx.change("touch_payload", digest=digest, now=tx.now):
            return False
        tx.change("use_payload", run_id=run_id, digest=digest)
    return True


def collect(tx: Transaction, digests: Iterable[bytes]) -> None:
    """Delete the ones of these payloads that no row refers to."""
    for digest in sorted(set(digests)):
        tx.rows("lock_payload", digest=digest)
        # After the lock, not before: only then all references that were committed are visible.
        if not tx.rows("payload_in_use", digest=digest):
            tx.change("delete_payload_parts", digest=digest)
            tx.change("delete_payload", digest=digest)


def digests_used(tx: Transaction, run_id: str) -> list[bytes]:
    """Return the recorded references of a run to payloads."""
    return [bytes(row["digest"]) for row in tx.rows("payloads_of_run", run_id=run_id)]


def fetch(ask: Ask, digest: bytes) -> Payload | None:
    """Return a payload with all its parts, or None if it does not exist."""
    # Parts first: if the payload is deleted between the queries, the second one shows it.
    parts = ask("payload_parts", digest=digest)
    rows = ask("payload", digest=digest)
    if not rows:
        return None
    row = rows[0]
    return Payload(
        bytes(row["digest"]),
        row["key"],
        row["form"],
        row["size"],
        [bytes(part["data"]) for part in parts],
    )


def sent(payloads: Sequence[Payload], value: bytes) -> list[Payload]:
    """Return the one of these payloads that a value refers to, as a list."""
    digest = digest_of(value) if payloads else None
    return [payload for payload in payloads if payload.digest == digest]


def _update_references(tx: Transaction, run_id: str) -> None:
    """Recompute the recorded references of a run after its values have changed.

    Payloads that no row refers to any more are deleted.
    """
    # Only the first bytes of each value are read: they name the payload.
    now = digests_of(*(bytes(row["head"]) for row in tx.rows("sealed_of_run", run_id=run_id)))
    gone = [digest for digest in digests_used(tx, run_id) if digest not in now]
    tx.many("drop_use", [{"run_id": run_id, "digest": digest} for digest in gone])
    collect(tx, gone)


def copy_payloads(tx: Transaction, op: CopyPayloads) -> None:
    """Store payloads before the runs that refer to them."""
    if not tx.rows("setting", name=HALF_COPIED):
        raise BadOption(
            option="payloads",
            why="no run refers to them: only a store that is being copied into accepts them",
        )
    for payload in op.payloads:
        insert_payload(tx, payload)


_RESEAL = frozenset(
    {
        "reseal_run_input",
        "reseal_run_result",
        "reseal_run_error",
        "reseal_event_data",
        "reseal_event_error",
        "reseal_signal_payload",
        "reseal_stream_summary",
        "reseal_frame_data",
        "reseal_frame_nulls",
        "reseal_output_message",
    }
)


def reseal(tx: Transaction, op: Reseal) -> int:
    """Replace sealed values by the same values under another seal, unless they have changed."""
    if not tx.rows("load_state", run_id=op.run_id):
        return 0
    done = 0
    for change in op.changes:
        query = f"reseal_{change.column}"
        if query not in _RESEAL:
            raise BadOption(option="column", value=change.column)
        values: dict[str, object] = {"run_id": op.run_id, "old": change.old, "new": change.new}
        if change.column == "output_message":  # a text
            values |= {"old": change.old.decode(), "new": change.new.decode()}
        elif not change.column.startswith("run_"):
            values["seq"] = change.seq
        done += tx.change(query, **values)
    keep(tx, op.run_id, op.payloads)
    _update_references(tx, op.run_id)
    return done


def forget_history(tx: Transaction, run_id: str) -> bool:
    """Delete the events of a run and record that in one event. The run cannot be replayed any
    more."""
    (events,) = tx.rows("count_events", run_id=run_id)
    if events["deleted"] or not events["events"]:
        return False
    tx.change("delete_events", run_id=run_id)
    append(
        tx,
        run_id,
        [
            Event(
                kind=EventKind.HISTORY_DELETED,
                seq=1,
                data=msgspec.json.encode({"events": events["events"]}),
            )
        ],
    )
    _update_references(tx, run_id)
    return True


def save_setting(tx: Transaction, op: SaveSetting) -> None:
    """Store a setting of the installation."""
    tx.change("save_setting", name=op.name, value=op.value)
