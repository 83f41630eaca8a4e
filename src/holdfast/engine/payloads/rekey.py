"""Putting all that is stored under the current key, run by run. It can be stopped at any moment and begun again: what is done is
recognised, and what others write meanwhile is under the current key anyway."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from holdfast.core.records import PRIVATE, Dossier, Payload
from holdfast.core.sealed import is_sealed, split
from holdfast.engine.payloads.vault import MARK, Vault, is_about_keys
from holdfast.errors import BadOption, KeyMissing
from holdfast.store.contract import Change, Reseal, ResealMember, Store
from holdfast.store.tables import BELOW_RUNS

RUNS, BYTES = 200, 8 * 1024 * 1024
"""How many runs are looked at at once, and about how much of them is in memory."""

MOST = 32 * 1024 * 1024
"""How much is written in one transaction, about."""

MESSAGE = "output_message"
TABLES = {table.name: table for table in BELOW_RUNS}

Write = Callable[[Reseal | ResealMember], Any]
Progress = Callable[[int], None]


class Rekeyed(msgspec.Struct):
    """What was done: how many runs were looked at, how many values are under another key now, and how many could not be read
    because their key is not known here, by its id."""

    runs: int = 0
    values: int = 0
    unreadable: dict[str, int] = {}


def rekey(store: Store, vault: Vault, write: Write, progress: Progress | None = None) -> Rekeyed:
    """Put every value that is not under the current key under it. Raises BadOption when nothing is encrypted here."""
    if vault.cipher is None:
        raise BadOption(option="codec", why="there is no current key: give an Encrypted codec, or set HOLDFAST_KEYS")
    done, after = Rekeyed(), ""
    while portion := store.dossiers(after, RUNS, BYTES):
        for one in portion:
            done.values += sum(write(op) for op in _operations(vault, one, done))
        done.runs += len(portion)
        after = portion[-1].run.id
        if progress is not None:
            progress(len(portion))
    _rekey_members(store, vault, write, done)
    return done


def _rekey_members(store: Store, vault: Vault, write: Write, done: Rekeyed) -> None:
    """Do the same for members of graphs that wait, and have no runs yet."""
    assert vault.cipher is not None
    after = ""
    while portion := store.members_to_seal(after, RUNS):
        after = portion[-1][0]
        for run_id, old in portion:
            if is_sealed(old) and split(old).key == vault.cipher.current:
                continue
            try:
                new = vault.inline(vault.open(old, f"the input of member {run_id}"))
            except KeyMissing as missing:
                key = str(missing.facts.get("key", ""))
                done.unreadable[key] = done.unreadable.get(key, 0) + 1
                continue
            done.values += bool(write(ResealMember(run_id, old, new)))


def _operations(vault: Vault, one: Dossier, done: Rekeyed) -> Iterator[Reseal]:
    """Yield what is to be written about a run, in portions that fit into memory."""
    changes: list[Change] = []
    payloads: list[Payload] = []
    for column, seq, old in _values(one):
        try:
            what = f"{column.replace('_', ' ')} of run {one.run.id}"
            new = _renewed_text(vault, old, what) if column == MESSAGE else _renewed(vault, old, _place(column, payloads), what)
        except KeyMissing as missing:
            key = str(missing.facts.get("key", ""))
            done.unreadable[key] = done.unreadable.get(key, 0) + 1
            continue
        if new is not None:
            changes.append(Change(column, old, new, seq))
        if sum(payload.stored for payload in payloads) > MOST:
            yield Reseal(one.run.id, changes, payloads)
            changes, payloads = [], []
    if changes:
        yield Reseal(one.run.id, changes, payloads)


def _values(one: Dossier) -> Iterator[tuple[str, int, bytes]]:
    """Yield every value of a run that is to be encrypted, with the column that it is in."""
    run = one.run
    found: list[tuple[str, int, bytes | None]] = [
        ("run_input", 0, run.input), ("run_result", 0, run.result), ("run_error", 0, run.error),
    ]  # fmt: skip
    for event in one.events:
        found.append(("event_data", event.seq, event.data if event.kind in PRIVATE else None))
        found.append(("event_error", event.seq, event.error))
    found += [("signal_payload", signal.id, signal.payload) for signal in one.signals]
    found += _put_out(one)
    for column, seq, value in found:
        if value is not None and not is_about_keys(value):
            yield column, seq, value


def _put_out(one: Dossier) -> Iterator[tuple[str, int, bytes | None]]:
    """Yield what a run has put out. What is kept of it stays in its row."""
    for name, column, key in (("stream", "summary", "number"), ("frame", "data", "seq"), ("frame", "nulls", "seq")):
        table = TABLES[name]
        at, which = table.columns.index(column), table.columns.index(key)
        for cells in one.below.get(name, ()):
            value, number = cells[at], cells[which]
            if isinstance(value, bytes) and isinstance(number, int):
                yield f"{name}_{column}", number, value
    for cells in one.below.get("output", ()):
        message = cells[TABLES["output"].columns.index("message")]
        if isinstance(message, str):
            yield MESSAGE, 0, message.encode()


def _renewed(vault: Vault, old: bytes, payloads: list[Payload] | None, what: str) -> bytes | None:
    """Return a value under the current key; None when it is."""
    assert vault.cipher is not None
    if is_sealed(old) and split(old).key == vault.cipher.current:
        return None
    plain = vault.open(old, what)
    return vault.inline(plain) if payloads is None else vault.value(plain, payloads)


def _place(column: str, payloads: list[Payload]) -> list[Payload] | None:
    """Return where what is large in a column is kept apart, if it may be."""
    return None if column.startswith(("frame_", "stream_")) else payloads


def _renewed_text(vault: Vault, old: bytes, what: str) -> bytes | None:
    assert vault.cipher is not None
    text = old.decode()
    if text.startswith(f"{MARK}{vault.cipher.current}{MARK}"):
        return None
    return vault.text(vault.text_opened(text, what)).encode()
