"""Re-encrypt all stored values with the current key, run by run.

``rekey`` can be stopped at any moment and started again: values that are under the current key are
skipped, and engines with the same keys write new values under the current key anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from holdfast.core import associated_data
from holdfast.core.envelope import is_sealed, split
from holdfast.core.event_table import SEALED
from holdfast.core.events import EventRole
from holdfast.core.payload import Payload
from holdfast.core.runs import RunSnapshot, StuckCause
from holdfast.errors import BadData, BadOption, KeyMissing
from holdfast.payloads.sealer import PayloadSealer
from holdfast.payloads.signing_secrets import ResealSecret
from holdfast.payloads.value_format import MARK, ValueFormat
from holdfast.store.graphs.operations import ResealMember
from holdfast.store.messages.operations import ResealMessage
from holdfast.store.operations.operations import ResealOperation
from holdfast.store.payloads.operations import Reseal, ValueChange
from holdfast.store.store import Store
from holdfast.store.tables import BELOW_RUNS

RUNS = 200
"""Runs that are read at once."""

BYTES = 8 * 1024 * 1024
"""Bytes of runs that are in memory at once, about."""

MOST = 32 * 1024 * 1024
"""Bytes of payloads that one transaction writes, about."""

MESSAGE = "output_message"
"""The name of the text column with the last progress message of a run."""

TABLES = {table.name: table for table in BELOW_RUNS}

Write = Callable[[Reseal | ResealMember | ResealOperation | ResealMessage | ResealSecret], Any]
Progress = Callable[[int], None]


class Rekeyed(msgspec.Struct):
    """The result of ``rekey``: the number of runs read and of values re-encrypted, the number of
    values that could not be read, by the id of the key that is not known here, and a message for
    each damaged value. Damaged and unreadable values stay unchanged."""

    runs: int = 0
    values: int = 0
    unreadable: dict[str, int] = {}
    damaged: list[str] = []

    def leave(self, error: KeyMissing | BadData) -> None:
        """Record a value that stays unchanged. One bad value must not keep all others under the old
        key."""
        if isinstance(error, BadData):
            self.damaged.append(str(error))
            return
        key = str(error.facts.get("key", ""))
        self.unreadable[key] = self.unreadable.get(key, 0) + 1


def rekey(
    store: Store, sealer: PayloadSealer, write: Write, progress: Progress | None = None
) -> Rekeyed:
    """Encrypt with the current key every value that is not yet under it.

    *write* applies an operation and returns how many values it changed; *progress* is called with
    the number of runs that were read. Raises BadOption if the engine does not encrypt."""
    if sealer.cipher is None:
        raise BadOption(
            option="codec",
            why="there is no current key: give an Encrypted codec, or set HOLDFAST_KEYS",
        )
    done = Rekeyed()
    after = ""
    while snapshots := store.run_snapshots.page(after, RUNS, BYTES):
        for snapshot in snapshots:
            done.values += sum(write(op) for op in _operations(sealer, snapshot, done))
        done.runs += len(snapshots)
        after = snapshots[-1].run.id
        if progress is not None:
            progress(len(snapshots))
    _rekey_members(store, sealer, write, done)
    _rekey_operations(store, sealer, write, done)
    _rekey_messages(store, sealer, write, done)
    for op in sealer.secrets.outdated(store, sealer.cipher.current, done.unreadable):
        done.values += bool(write(op))
    return done


def _rekey_members(store: Store, sealer: PayloadSealer, write: Write, done: Rekeyed) -> None:
    """Re-encrypt the inputs of graph members that have no run yet."""
    assert sealer.cipher is not None
    after = ""
    while members := store.graphs.members_to_seal(after, RUNS):
        after = members[-1][0]
        for run_id, old in members:
            try:
                if is_sealed(old) and split(old).key == sealer.cipher.current:
                    continue
                place = associated_data.member_input(run_id)
                new = sealer.values.seal_inline(
                    sealer.values.open(old, f"the input of member {run_id}", place), place
                )
            except (KeyMissing, BadData) as unreadable:
                done.leave(unreadable)
                continue
            done.values += bool(write(ResealMember(run_id, old, new)))


def _rekey_operations(store: Store, sealer: PayloadSealer, write: Write, done: Rekeyed) -> None:
    """Re-encrypt the payloads of bulk operations that have not ended."""
    assert sealer.cipher is not None
    after = ""
    while operations := store.operations.to_seal(after, RUNS):
        after = operations[-1][0]
        for operation_id, old in operations:
            try:
                if is_sealed(old) and split(old).key == sealer.cipher.current:
                    continue
                place = associated_data.operation_payload(operation_id)
                label = f"the payload of operation {operation_id}"
                new = sealer.values.seal_inline(sealer.values.open(old, label, place), place)
            except (KeyMissing, BadData) as unreadable:
                done.leave(unreadable)
                continue
            done.values += bool(write(ResealOperation(operation_id, old, new)))


def _rekey_messages(store: Store, sealer: PayloadSealer, write: Write, done: Rekeyed) -> None:
    """Re-encrypt the messages that are kept, and the messages that are remembered by their ids."""
    assert sealer.cipher is not None
    after = ("", "", "")
    while messages := store.messages.to_seal(after, RUNS):
        after = (messages[-1].namespace, messages[-1].name, messages[-1].id)
        for message in messages:
            old = message.payload
            try:
                if is_sealed(old) and split(old).key == sealer.cipher.current:
                    continue
                plain = sealer.opener.message_payload(message.id, old)
                new = sealer.values.seal_inline(plain, associated_data.message(message.id))
            except (KeyMissing, BadData) as unreadable:
                done.leave(unreadable)
                continue
            op = ResealMessage(message.namespace, message.name, message.id, old, new)
            done.values += bool(write(op))


def _operations(sealer: PayloadSealer, snapshot: RunSnapshot, done: Rekeyed) -> Iterator[Reseal]:
    """Yield the operations that re-encrypt the values of a run, each small enough for memory."""
    changes: list[ValueChange] = []
    payloads: list[Payload] = []
    for column, seq, old, place in _values(snapshot):
        try:
            label = f"{column.replace('_', ' ')} of run {snapshot.run.id}"
            new = _rekeyed(sealer.values, column, old, payloads, label, place)
        except (KeyMissing, BadData) as unreadable:
            done.leave(unreadable)
            continue
        if new is not None:
            changes.append(ValueChange(column, old, new, seq))
        if sum(payload.stored for payload in payloads) > MOST:
            yield Reseal(snapshot.run.id, changes, payloads)
            changes = []
            payloads = []
    if changes:
        yield Reseal(snapshot.run.id, changes, payloads)


def _values(snapshot: RunSnapshot) -> Iterator[tuple[str, int, bytes, bytes]]:
    """Yield every value of a run that must be encrypted: its column, the number of its row, the
    stored value, and the place to which it is bound."""
    run = snapshot.run
    id = run.id
    values: list[tuple[str, int, bytes | None, bytes]] = [
        ("run_input", 0, run.input, associated_data.run_input(id)),
        ("run_result", 0, run.result, associated_data.run_result(id)),
        (
            "run_error",
            0,
            _private(run.error, run.stuck_cause == StuckCause.KEY_MISSING),
            associated_data.error(id),
        ),
    ]
    for event in snapshot.events:
        data = event.data if event.kind in SEALED else None
        values.append(
            ("event_data", event.seq, data, associated_data.event(id, event.kind, event.step))
        )
        error = _private(event.error, event.role == EventRole.KEY_MISSING)
        values.append(("event_error", event.seq, error, associated_data.error(id, event.step)))
    values += [
        ("signal_payload", signal.id, signal.payload, associated_data.of_signal(id, signal))
        for signal in snapshot.signals
    ]
    values += _output(snapshot)
    for column, seq, value, place in values:
        if value is not None:
            yield column, seq, value, place


def _private(error: bytes | None, is_about_keys: bool) -> bytes | None:
    """Return an error that must be encrypted; None for the error of a stuck run that waits for a
    key, which must be readable without keys."""
    if is_about_keys:
        return None
    return error


def _output(snapshot: RunSnapshot) -> Iterator[tuple[str, int, bytes | None, bytes]]:
    """Yield the streams, frames and the progress message of a run, with their places. Output is
    never kept apart."""
    id = snapshot.run.id
    sources: dict[int, associated_data.Source] = {}
    for row in _rows(snapshot, "stream"):
        source = sources[row["number"]] = (row["step"], row["attempt"], row["generation"])
        yield "stream_summary", row["number"], row["summary"], associated_data.summary(id, source)
    for row in _rows(snapshot, "frame"):
        # A frame without its stream cannot be read: that is damage, which ``db check`` reports.
        if row["stream"] not in sources:
            continue
        source = sources[row["stream"]]
        yield "frame_data", row["seq"], row["data"], associated_data.frame(id, source, row["at"])
        yield "frame_nulls", row["seq"], row["nulls"], associated_data.nulls(id, source, row["at"])
    for row in _rows(snapshot, "output"):
        if row["message"] is not None:
            yield MESSAGE, 0, row["message"].encode(), associated_data.progress(id)


def _rows(snapshot: RunSnapshot, table: str) -> Iterator[dict[str, Any]]:
    for cells in snapshot.below.get(table, ()):
        yield dict(zip(TABLES[table].columns, cells, strict=True))


def _rekeyed(
    values: ValueFormat, column: str, old: bytes, payloads: list[Payload], label: str, place: bytes
) -> bytes | None:
    """Return a value, encrypted with the current key; None if it is already. Output stays in its
    row, however large it is."""
    assert values.cipher is not None
    if column == MESSAGE:
        return _rekeyed_text(values, old.decode(), label, place)
    if is_sealed(old) and split(old).key == values.cipher.current:
        return None
    plain = values.open(old, label, place)
    if column.startswith(("frame_", "stream_")):
        return values.seal_inline(plain, place)
    return values.seal(plain, payloads, place)


def _rekeyed_text(values: ValueFormat, old: str, label: str, place: bytes) -> bytes | None:
    assert values.cipher is not None
    if old.startswith(f"{MARK}{values.cipher.current}{MARK}"):
        return None
    return values.seal_text(values.open_text(old, label, place), place).encode()
