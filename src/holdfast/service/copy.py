"""Copy a whole store to another one, of the same or of another database, and continue there.

No worker may use either store meanwhile. Until everything is copied and both sides are equal, the
target is marked half-copied: only the next copy can open it, and empties it first.

Invariant: at no instant can workers use both stores. The source is sealed in the transaction that
finds both sides equal; only then is the target opened for use. If the process dies in between, the
same command finds the seal and ends the copy.
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
from holdfast.store.database import Operation
from holdfast.store.installation import ENCRYPTION, HALF_COPIED
from holdfast.store.liveness import session_is_dead
from holdfast.store.payloads.operations import CopyPayloads, SaveSetting
from holdfast.store.runs.copy_operations import BeginCopy, CopyRuns, EndCopy, SealStore
from holdfast.store.runs.operations import EndSession
from holdfast.store.sealing import store_sealed
from holdfast.store.store import Store

RUNS = 500
"""Runs that one transaction copies."""

BYTES = 8 * 1024 * 1024
"""Bytes of runs that are in memory at once, about."""

PATIENCE = 3.0
"""Seconds to wait for live sessions to end: a worker that has just died counts as alive for a
moment."""

COPYING = "copying"
CHECKING = "checking"
Progress = Callable[[str, int], None]
"""Called with the phase and the number of runs that were processed."""


class Inventory(msgspec.Struct):
    """The contents of a store: the number of rows of each kind, and a digest of all of them."""

    runs: dict[str, int] = {}
    events: int = 0
    signals: int = 0
    tags: int = 0
    lanes: int = 0
    payloads: int = 0
    others: dict[str, int] = {}
    """The number of rows of the other tables that belong to runs or to the installation."""
    digest: str = ""


class CopyReport(msgspec.Struct):
    """The contents of both stores after a copy."""

    source: Inventory
    target: Inventory

    @property
    def same(self) -> bool:
        """Whether the target equals the source: nothing was lost, and no process has written to
        the source since."""
        return self.source == self.target


def copy_store(
    source: Store, open_target: Callable[[], Store], progress: Progress = lambda table, runs: None
) -> CopyReport:
    """Copy all runs with their rows, and all lanes, to the store that *open_target* opens, and seal
    the source. If both sides differ afterwards, the source is not sealed and the target stays
    half-copied.

    Raises StoreInUse if a worker uses one of them, StoreNotEmpty if the target has runs,
    StoreHalfCopied if the source is itself the target of an unfinished copy, StoreSealed if the
    source was copied to another target before."""
    if source.installation.is_half_copied():
        raise StoreHalfCopied(database=source.url)
    seal = source.installation.seal()
    if seal is None:
        release_dead_sessions(source)
    target = open_target()
    try:
        if target.url == source.url:
            raise BadOption(option="TARGET", why="TARGET is the same database as SOURCE")
        if seal is not None:
            return _finish(source, target, seal, progress)
        release_dead_sessions(target)
        copy_id = new_id()
        _begin(source, target, copy_id)
        for payloads in _payloads(source):
            _do(target, CopyPayloads(payloads))
        for snapshots in _snapshots(source):
            _do(target, CopyRuns(snapshots))
            progress(COPYING, len(snapshots))
        seal = Seal(at=source.now(), moved_to=redacted(target.url), copy_id=copy_id)
        report = _seal_if_same(source, target, seal, progress)
        if report.same:
            _do(target, EndCopy())  # after the seal, not before: both must never be usable
        return report
    finally:
        target.close()


def _seal_if_same(source: Store, target: Store, seal: Seal, progress: Progress) -> CopyReport:
    """Compare both sides while no process can write to the source, and seal it if they are
    equal."""
    report = CopyReport(Inventory(), Inventory())

    def is_same() -> bool:
        if living := _living(source):
            raise StoreInUse(database=source.url, **_who(living))
        report.source = take_inventory(source, progress)
        report.target = take_inventory(target, progress)
        return report.same

    _do(source, SealStore(seal, is_same))
    return report


def _finish(source: Store, target: Store, seal: Seal, progress: Progress) -> CopyReport:
    """End a copy whose process died after it had sealed the source and before it had opened the
    target for use. Raises StoreSealed if the source was copied to another target."""
    if seal.copy_id is None or target.installation.setting(HALF_COPIED) != seal.copy_id:
        raise store_sealed(seal, source.url)
    report = CopyReport(take_inventory(source, progress), take_inventory(target, progress))
    if report.same:
        _do(target, EndCopy())
    return report


def _begin(source: Store, target: Store, copy_id: str) -> None:
    try:
        _do(target, BeginCopy(source.lanes.all(), source.installation.rows(), copy_id))
        if source.installation.setting(ENCRYPTION) is not None:
            _do(target, SaveSetting(ENCRYPTION, "on"))
    except StoreNotEmpty:
        raise StoreNotEmpty(database=target.url, runs=sum(target.runs.counts().values())) from None
    except StoreInUse:
        raise in_use(target) from None
    if source.installation.is_half_copied():  # both have the mark: one database under two names
        _do(target, EndCopy())
        raise BadOption(option="TARGET", why="TARGET is the same database as SOURCE")


def release_dead_sessions(store: Store) -> None:
    """End the sessions of dead workers, which releases their runs, as any worker would.

    Waits up to PATIENCE seconds for live sessions to end. Raises StoreInUse."""
    deadline = time.monotonic() + PATIENCE
    while living := _living(store):
        if time.monotonic() > deadline:
            raise StoreInUse(database=store.url, **_who(living))
        time.sleep(0.1)
    for session in store.sessions.all():
        session_id: str | None = session.id
        while session_id is not None:  # a session with many runs is ended in several transactions
            session_id = _do(store, EndSession(session_id, crashed=True)).rest


def in_use(store: Store) -> StoreInUse:
    """Return the error that names the first worker with a session."""
    return StoreInUse(database=store.url, **_who(store.sessions.all()))


def _living(store: Store) -> list[Session]:
    now = store.now()
    return [session for session in store.sessions.all() if not session_is_dead(store, session, now)]


def _who(living: list[Session]) -> dict[str, object]:
    if not living:  # the session has ended meanwhile
        return {}
    first = living[0]
    others = {"others": len(living) - 1} if len(living) > 1 else {}
    return {"worker": first.worker, "pid": first.pid, "host": first.host, **others}


def take_inventory(store: Store, progress: Progress = lambda table, runs: None) -> Inventory:
    """Return the inventory of a store. Two stores with the same contents have equal inventories,
    also in different databases."""
    inventory = Inventory()
    digest = hashlib.sha256()
    for snapshots in _snapshots(store):
        for snapshot in snapshots:
            _count(inventory, snapshot)
            digest.update(_canonical(snapshot))
        progress(CHECKING, len(snapshots))
    for payloads in _payloads(store):
        inventory.payloads += len(payloads)
        digest.update(msgspec.msgpack.encode(payloads))
    lanes = store.lanes.all()
    standing = store.installation.rows()
    digest.update(msgspec.msgpack.encode([lanes, standing]))
    inventory.others |= {table: len(rows) for table, rows in standing.items()}
    inventory.others = dict(sorted(inventory.others.items()))
    inventory.runs = dict(sorted(inventory.runs.items()))
    inventory.lanes = len(lanes)
    inventory.digest = digest.hexdigest()
    return inventory


def _count(inventory: Inventory, snapshot: RunSnapshot) -> None:
    inventory.runs[snapshot.run.status] = inventory.runs.get(snapshot.run.status, 0) + 1
    inventory.events += len(snapshot.events)
    inventory.signals += len(snapshot.signals)
    inventory.tags += len(snapshot.tags)
    for table, rows in snapshot.below.items():
        inventory.others[table] = inventory.others.get(table, 0) + len(rows)


def _canonical(snapshot: RunSnapshot) -> bytes:
    """Return the bytes of a run that must be equal on both sides. A signal has another id in each
    store, so its position takes the place of its id."""
    signals = [
        msgspec.structs.replace(signal, id=place) for place, signal in enumerate(snapshot.signals)
    ]
    return msgspec.msgpack.encode(msgspec.structs.replace(snapshot, signals=signals))


def _payloads(store: Store) -> Iterator[list[Payload]]:
    """Yield all payloads, in order, in batches of about BYTES bytes. Raises BadData if one lacks
    some of its bytes or does not match its digest."""
    batch: list[Payload] = []
    sealer = PayloadSealer(store)
    for digest, stored in digests(store):
        payload = store.payloads.get(digest)
        if payload is None or payload.stored != stored:
            raise BadData(
                value=f"payload {digest.hex()}",
                why="parts of the payload are missing: run `holdfast db check`",
            )
        if not payload.key:  # an encrypted payload can only be checked with its key
            sealer.values.content(payload, f"payload {digest.hex()}")
        batch.append(payload)
        if sum(payload.stored for payload in batch) > BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


def _snapshots(store: Store) -> Iterator[list[RunSnapshot]]:
    after = ""
    while snapshots := store.run_snapshots.page(after, RUNS, BYTES):
        yield snapshots
        after = snapshots[-1].run.id


def _do(store: Store, op: Operation) -> Any:
    answer = store.apply([op])[0]
    if isinstance(answer, BaseException):
        raise answer
    return answer
