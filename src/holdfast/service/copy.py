"""Moving house: all that one store holds is copied to another one, and the runs go on there. Any
store to any other.

Nobody may work on either of them meanwhile. Until all is copied and both sides are the same the
target is half-copied: nobody can open it but the next copy, which empties it first.

Invariant: at no instant can both be worked on. The source is sealed in the transaction in which
both sides turned out to be the same; only then the target is opened. A copy that dies in between is
ended by the same command, which finds the seal.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from holdfast.core.payload import Payload, Seal
from holdfast.core.redaction import redacted
from holdfast.core.runs import RunSnapshot
from holdfast.core.sessions import Session
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import BadData, BadOption, StoreHalfCopied, StoreInUse, StoreNotEmpty
from holdfast.payloads.sealer import PayloadSealer
from holdfast.payloads.verify import digests
from holdfast.store.contract import (
    ENCRYPTION,
    HALF_COPIED,
    BeginCopy,
    CopyPayloads,
    CopyRuns,
    EndCopy,
    EndSession,
    Operation,
    SaveSetting,
    SealStore,
    Store,
)
from holdfast.store.liveness import session_is_dead
from holdfast.store.sealing import store_sealed

RUNS, BYTES = 500, 8 * 1024 * 1024
"""How many runs are copied in one transaction, and about how much of them is in memory at once."""

PATIENCE = 3.0
"""Seconds for which a session is watched before its worker counts as living: one that has just died
may seem to."""

COPYING, CHECKING = "copying", "checking"
Progress = Callable[[str, int], None]


class Inventory(msgspec.Struct):
    """What a store holds: how many of each, and a digest of all of it."""

    runs: dict[str, int] = {}
    events: int = 0
    signals: int = 0
    tags: int = 0
    lanes: int = 0
    payloads: int = 0
    others: dict[str, int] = {}
    """How many rows there are of what else belongs to runs or to the installation, by table."""
    digest: str = ""


class CopyReport(msgspec.Struct):
    """What is on either side after a copy."""

    source: Inventory
    target: Inventory

    @property
    def same(self) -> bool:
        """Whether nothing was lost on the way, and nobody has written to the source since."""
        return self.source == self.target


def copy_store(
    source: Store, open_target: Callable[[], Store], progress: Progress = lambda what, runs: None
) -> CopyReport:
    """Copy all runs, with all that belongs to them, and all lanes to the store that *open_target*
    opens, and seal the source. When both sides turn out to differ the source is not sealed, and the
    target stays half-copied.

    Raises StoreInUse when somebody works on one of them, StoreNotEmpty when the target has runs,
    StoreHalfCopied when the source is itself the target of a copy that did not end, StoreSealed
    when it was copied to another target before."""
    if source.is_half_copied():
        raise StoreHalfCopied(database=source.url)
    seal = source.seal()
    if seal is None:
        quieten(source)
    target = open_target()
    try:
        if target.url == source.url:
            raise BadOption(option="TARGET", why="it is the same database as SOURCE")
        if seal is not None:
            return _finish(source, target, seal, progress)
        quieten(target)
        copy_id = new_id()
        _begin(source, target, copy_id)
        for payloads in _payloads(source):
            _do(target, CopyPayloads(payloads))
        for portion in _portions(source):
            _do(target, CopyRuns(portion))
            progress(COPYING, len(portion))
        seal = Seal(at=source.now(), moved_to=redacted(target.url), copy_id=copy_id)
        moved = _seal_if_same(source, target, seal, progress)
        if moved.same:
            _do(target, EndCopy())
        return moved
    finally:
        target.close()


def _seal_if_same(source: Store, target: Store, seal: Seal, progress: Progress) -> CopyReport:
    """Compare both sides while nobody can write to the source, and seal it if they are the same."""
    moved = CopyReport(Inventory(), Inventory())

    def is_same() -> bool:
        if living := _living(source):
            raise StoreInUse(database=source.url, **_who(living))
        moved.source = take_inventory(source, progress)
        moved.target = take_inventory(target, progress)
        return moved.same

    _do(source, SealStore(seal, is_same))
    return moved


def _finish(source: Store, target: Store, seal: Seal, progress: Progress) -> CopyReport:
    """End a copy that has sealed its source, and died before the target could be used."""
    if seal.copy_id is None or target.setting(HALF_COPIED) != seal.copy_id:
        raise store_sealed(seal, source.url)
    moved = CopyReport(take_inventory(source, progress), take_inventory(target, progress))
    if moved.same:
        _do(target, EndCopy())
    return moved


def _begin(source: Store, target: Store, copy_id: str) -> None:
    try:
        _do(target, BeginCopy(source.lanes(), source.standing(), copy_id))
        if source.setting(ENCRYPTION) is not None:
            _do(target, SaveSetting(ENCRYPTION, "on"))
    except StoreNotEmpty:
        raise StoreNotEmpty(database=target.url, runs=sum(target.counts().values())) from None
    except StoreInUse:
        raise in_use(target) from None
    if source.is_half_copied():  # the mark is on both: they are one database under two names
        _do(target, EndCopy())
        raise BadOption(option="TARGET", why="it is the same database as SOURCE")


def quieten(store: Store) -> None:
    """See to it that nobody holds a run: free what the dead held, as any worker would. Raises
    StoreInUse."""
    deadline = time.monotonic() + PATIENCE
    while living := _living(store):
        if time.monotonic() > deadline:  # one that has just died may count as living for a moment
            raise StoreInUse(database=store.url, **_who(living))
        time.sleep(0.1)
    for session in store.sessions():
        ends: str | None = session.id
        while ends is not None:
            ends = _do(store, EndSession(ends, crashed=True)).rest


def in_use(store: Store) -> StoreInUse:
    """Return the error that names the worker that has opened a session."""
    return StoreInUse(database=store.url, **_who(store.sessions()))


def _living(store: Store) -> list[Session]:
    now = store.now()
    return [session for session in store.sessions() if not session_is_dead(store, session, now)]


def _who(living: list[Session]) -> dict[str, object]:
    if not living:  # a session that has ended meanwhile
        return {}
    first = living[0]
    others = {"others": len(living) - 1} if len(living) > 1 else {}
    return {"worker": first.worker, "pid": first.pid, "host": first.host, **others}


def take_inventory(store: Store, progress: Progress = lambda what, runs: None) -> Inventory:
    """Look through all that a store holds. Two stores that hold the same have equal inventories,
    wherever they are."""
    found, digest = Inventory(), hashlib.sha256()
    for portion in _portions(store):
        for one in portion:
            _count(found, one)
            digest.update(_canonical(one))
        progress(CHECKING, len(portion))
    for payloads in _payloads(store):
        found.payloads += len(payloads)
        digest.update(msgspec.msgpack.encode(payloads))
    lanes = store.lanes()
    standing = store.standing()
    digest.update(msgspec.msgpack.encode([lanes, standing]))
    found.others |= {table: len(rows) for table, rows in standing.items()}
    found.others = dict(sorted(found.others.items()))
    found.runs = dict(sorted(found.runs.items()))
    found.lanes, found.digest = len(lanes), digest.hexdigest()
    return found


def _count(found: Inventory, one: RunSnapshot) -> None:
    found.runs[one.run.status] = found.runs.get(one.run.status, 0) + 1
    found.events += len(one.events)
    found.signals += len(one.signals)
    found.tags += len(one.tags)
    for table, rows in one.below.items():
        found.others[table] = found.others.get(table, 0) + len(rows)


def _canonical(one: RunSnapshot) -> bytes:
    """Return all that must be the same on both sides: a signal has another number in each store,
    and keeps its place."""
    signals = [
        msgspec.structs.replace(signal, id=place) for place, signal in enumerate(one.signals)
    ]
    return msgspec.msgpack.encode(msgspec.structs.replace(one, signals=signals))


def _payloads(store: Store) -> Iterator[list[Payload]]:
    """Yield all payloads, in order, as many at a time as are to be in memory at once; each must
    have all its bytes."""
    batch: list[Payload] = []
    sealer = PayloadSealer(store)
    for digest, stored in digests(store):
        payload = store.payload(digest)
        if payload is None or payload.stored != stored:
            raise BadData(
                what=f"payload {digest.hex()}", why="parts of it are missing: `holdfast db check`"
            )
        if not payload.key:
            sealer.values.content(
                payload, f"payload {digest.hex()}"
            )  # what is encrypted is checked by whoever has its key
        batch.append(payload)
        if sum(one.stored for one in batch) > BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


def _portions(store: Store) -> Iterator[list[RunSnapshot]]:
    after = ""
    while portion := store.dossiers(after, RUNS, BYTES):
        yield portion
        after = portion[-1].run.id


def _do(store: Store, op: Operation) -> Any:
    answer = store.apply([op])[0]
    if isinstance(answer, BaseException):
        raise answer
    return answer
