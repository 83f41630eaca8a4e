"""Putting all that is stored under the current key, run by run. It can be stopped at any moment and
begun again: what is done is recognised, and what others write meanwhile is under the current key
anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from holdfast.core import associated_data
from holdfast.core.envelope import is_sealed, split
from holdfast.core.event_table import SEALED
from holdfast.core.events import EventKind
from holdfast.core.payload import Payload
from holdfast.core.runs import RunSnapshot
from holdfast.core.status import Status
from holdfast.errors import BadData, BadOption, KeyMissing
from holdfast.payloads.sealer import PayloadSealer, is_about_keys
from holdfast.payloads.signing_secrets import Resealing
from holdfast.payloads.value_format import MARK, ValueFormat
from holdfast.store.contract import Reseal, ResealMember, Store, ValueChange
from holdfast.store.tables import BELOW_RUNS

RUNS, BYTES = 200, 8 * 1024 * 1024
"""How many runs are looked at at once, and about how much of them is in memory."""

MOST = 32 * 1024 * 1024
"""How much is written in one transaction, about."""

MESSAGE = "output_message"
TABLES = {table.name: table for table in BELOW_RUNS}

Write = Callable[[Reseal | ResealMember | Resealing], Any]
Progress = Callable[[int], None]


class Rekeyed(msgspec.Struct):
    """What was done: how many runs were looked at, how many values are under another key now, how
    many could not be read because their key is not known here, by its id, and which ones are
    damaged, in words. Damaged values stay as they are."""

    runs: int = 0
    values: int = 0
    unreadable: dict[str, int] = {}
    damaged: list[str] = []

    def leave(self, error: KeyMissing | BadData) -> None:
        """Note a value that stays as it is: one bad value must not keep all others under the old
        key."""
        if isinstance(error, BadData):
            self.damaged.append(str(error))
            return
        key = str(error.facts.get("key", ""))
        self.unreadable[key] = self.unreadable.get(key, 0) + 1


def rekey(
    store: Store, sealer: PayloadSealer, write: Write, progress: Progress | None = None
) -> Rekeyed:
    """Put every value that is not under the current key under it. Raises BadOption when nothing is
    encrypted here."""
    if sealer.cipher is None:
        raise BadOption(
            option="codec",
            why="there is no current key: give an Encrypted codec, or set HOLDFAST_KEYS",
        )
    done, after = Rekeyed(), ""
    while portion := store.dossiers(after, RUNS, BYTES):
        for one in portion:
            done.values += sum(write(op) for op in _operations(sealer, one, done))
        done.runs += len(portion)
        after = portion[-1].run.id
        if progress is not None:
            progress(len(portion))
    _rekey_members(store, sealer, write, done)
    for op in sealer.secrets.outdated(store, sealer.cipher.current, done.unreadable):
        done.values += bool(write(op))
    return done


def _rekey_members(store: Store, sealer: PayloadSealer, write: Write, done: Rekeyed) -> None:
    """Do the same for members of graphs that wait, and have no runs yet."""
    assert sealer.cipher is not None
    after = ""
    while portion := store.members_to_seal(after, RUNS):
        after = portion[-1][0]
        for run_id, old in portion:
            try:
                if is_sealed(old) and split(old).key == sealer.cipher.current:
                    continue
                place = associated_data.member_input(run_id)
                new = sealer.values.inline(
                    sealer.values.open(old, f"the input of member {run_id}", place), place
                )
            except (KeyMissing, BadData) as unreadable:
                done.leave(unreadable)
                continue
            done.values += bool(write(ResealMember(run_id, old, new)))


def _operations(sealer: PayloadSealer, one: RunSnapshot, done: Rekeyed) -> Iterator[Reseal]:
    """Yield what is to be written about a run, in portions that fit into memory."""
    changes: list[ValueChange] = []
    payloads: list[Payload] = []
    for column, seq, old, place in _values(one):
        try:
            what = f"{column.replace('_', ' ')} of run {one.run.id}"
            new = _renewed(sealer.values, column, old, payloads, what, place)
        except (KeyMissing, BadData) as unreadable:
            done.leave(unreadable)
            continue
        if new is not None:
            changes.append(ValueChange(column, old, new, seq))
        if sum(payload.stored for payload in payloads) > MOST:
            yield Reseal(one.run.id, changes, payloads)
            changes, payloads = [], []
    if changes:
        yield Reseal(one.run.id, changes, payloads)


def _values(one: RunSnapshot) -> Iterator[tuple[str, int, bytes, bytes]]:
    """Yield every value of a run that is to be encrypted, with the column that it is in and the
    place that it is bound to."""
    run, id = one.run, one.run.id
    found: list[tuple[str, int, bytes | None, bytes]] = [
        ("run_input", 0, run.input, associated_data.run_input(id)),
        ("run_result", 0, run.result, associated_data.run_result(id)),
        (
            "run_error",
            0,
            _private(run.error, stuck=run.status is Status.STUCK),
            associated_data.error(id),
        ),
    ]
    for event in one.events:
        data = event.data if event.kind in SEALED else None
        found.append(
            ("event_data", event.seq, data, associated_data.event(id, event.kind, event.step))
        )
        error = _private(event.error, stuck=event.kind == EventKind.RUN_STUCK)
        found.append(("event_error", event.seq, error, associated_data.error(id, event.step)))
    found += [
        ("signal_payload", signal.id, signal.payload, associated_data.of_signal(id, signal))
        for signal in one.signals
    ]
    found += _put_out(one)
    for column, seq, value, place in found:
        if value is not None:
            yield column, seq, value, place


def _private(error: bytes | None, *, stuck: bool) -> bytes | None:
    """Return an error that is to be encrypted; None for that of a stuck run which waits for a
    key."""
    return None if stuck and is_about_keys(error) else error


def _put_out(one: RunSnapshot) -> Iterator[tuple[str, int, bytes | None, bytes]]:
    """Yield what a run has put out, with its places. What is kept of it stays in its row."""
    id = one.run.id
    sources: dict[int, associated_data.Source] = {}
    for row in _rows(one, "stream"):
        source = sources[row["number"]] = (row["step"], row["attempt"], row["generation"])
        yield "stream_summary", row["number"], row["summary"], associated_data.summary(id, source)
    for row in _rows(one, "frame"):
        if (
            row["stream"] not in sources
        ):  # damage, which ``check`` reports: a frame without its stream can be read by no one
            continue
        source = sources[row["stream"]]
        yield "frame_data", row["seq"], row["data"], associated_data.frame(id, source, row["at"])
        yield "frame_nulls", row["seq"], row["nulls"], associated_data.nulls(id, source, row["at"])
    for row in _rows(one, "output"):
        if row["message"] is not None:
            yield MESSAGE, 0, row["message"].encode(), associated_data.progress(id)


def _rows(one: RunSnapshot, table: str) -> Iterator[dict[str, Any]]:
    for cells in one.below.get(table, ()):
        yield dict(zip(TABLES[table].columns, cells, strict=True))


def _renewed(
    values: ValueFormat, column: str, old: bytes, payloads: list[Payload], what: str, place: bytes
) -> bytes | None:
    """Return a value under the current key; None when it is. What is put out stays in its row,
    however large."""
    assert values.cipher is not None
    if column == MESSAGE:
        return _renewed_text(values, old.decode(), what, place)
    if is_sealed(old) and split(old).key == values.cipher.current:
        return None
    plain = values.open(old, what, place)
    in_row = column.startswith(("frame_", "stream_"))
    return values.inline(plain, place) if in_row else values.value(plain, payloads, place)


def _renewed_text(values: ValueFormat, old: str, what: str, place: bytes) -> bytes | None:
    assert values.cipher is not None
    if old.startswith(f"{MARK}{values.cipher.current}{MARK}"):
        return None
    return values.text(values.text_opened(old, what, place), place).encode()
