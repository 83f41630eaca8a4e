"""Export a run with its descendants, or a graph with its members, to another database.

Everything is read from one snapshot of the source, so a run, its signals, its children and its
graph are consistent, however busy they are. It is written in batches.

Invariant: a run that has not ended continues in one database only. The commit that ends the export
seals the copy of such a run: it can be read, and continues only after `holdfast db unseal`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import msgspec

from holdfast.core.payload import Seal
from holdfast.core.redaction import redacted
from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL
from holdfast.core.versions import all_versions
from holdfast.engine.runtime.ids import offered_key
from holdfast.errors import (
    GraphNotFound,
    KeyMissing,
    RunNotFinished,
    RunNotFound,
    StoreInUse,
)
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.copy import in_use, release_dead_sessions
from holdfast.store.graphs.operations import ImportGraph
from holdfast.store.installation import ENCRYPTION
from holdfast.store.keys.operations import NeedKey
from holdfast.store.payloads.operations import SaveSetting
from holdfast.store.runs.copy_operations import BeginImport, EndCopy, ImportRun
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.store import Store, View

PAGE = 500
"""Children that one query reads."""

RUNS = 200
"""Runs that one transaction writes."""

BYTES = 8 * 1024 * 1024
"""Bytes that one transaction writes, about."""

Progress = Callable[[int], None]


def export(
    source: Store,
    sealer: PayloadSealer,
    run: RunRecord,
    open_target: Callable[[], Store],
    progress: Progress | None = None,
) -> int:
    """Copy *run* and its descendants, as of one instant, to the store that *open_target* opens, and
    return the number of copied runs.

    A new database is marked half-copied until everything is copied, and is sealed if one of the
    runs has not ended. Raises RunNotFound, RunExists, and RunNotFinished if such a run would be
    copied to a database that already has runs."""
    with source.snapshot() as view:
        root = view.runs.get(run.id)
        if root is None:
            raise RunNotFound(run=run.id, why="the run was deleted meanwhile")
        return _export(source, sealer, view, lambda: [root], open_target, progress)


def export_graph(
    source: Store,
    sealer: PayloadSealer,
    graph_id: str,
    open_target: Callable[[], Store],
    progress: Progress | None = None,
) -> int:
    """Copy a graph and the runs of its members like ``export``, and return the number of copied
    runs. Raises GraphNotFound, RunExists, GraphExists, RunNotFinished."""
    with source.snapshot() as view:
        whole = view.graphs.snapshot(graph_id)
        if whole is None:
            raise GraphNotFound(graph=graph_id)
        trail = view.graphs.events(graph_id, limit=whole.graph.events)

        def runs() -> Iterator[RunRecord]:
            started = (
                view.runs.get(member.actual_run_id)
                for member in whole.members.values()
                if member.started_at is not None
            )
            return (run for run in started if run is not None)

        return _export(source, sealer, view, runs, open_target, progress, ImportGraph(whole, trail))


def _export(
    source: Store,
    sealer: PayloadSealer,
    view: View,
    runs: Callable[[], Iterable[RunRecord]],
    open_target: Callable[[], Store],
    progress: Progress | None,
    last: ImportGraph | None = None,
) -> int:
    target = open_target()
    try:
        fresh = not target.runs.counts()
        if fresh:
            _begin(target)
        else:
            _refuse_open_runs(view, runs())
        if view.installation.setting(ENCRYPTION) is not None:
            _do(target, SaveSetting(ENCRYPTION, "on"))
        count = 0
        has_waits = False
        has_ended = last is None or last.whole.graph.finished_at is not None
        for batch in _batches(view, runs()):
            _write(target, batch)
            count += len(batch)
            has_ended = has_ended and all(op.run.status in FINAL for op in batch)
            has_waits = has_waits or any("wait" in op.below for op in batch)
            if progress is not None:
                progress(len(batch))
        if last is not None:
            _do(target, last)
        if has_waits:
            _give_key(target, sealer)
        if fresh:
            seal = Seal(at=source.now(), copied_from=redacted(source.url))
            _do(target, EndCopy(None if has_ended else seal))
        return count
    finally:
        target.close()


def _refuse_open_runs(view: View, runs: Iterable[RunRecord]) -> None:
    """Raise RunNotFinished if a run has not ended: its copy would be sealed, and with it all other
    runs of the target."""
    for run in (descendant for root in runs for descendant in walk(view, root)):
        if run.status not in FINAL:
            why = (
                "the run continues here, so its copy would be sealed with all other runs there:"
                " export it to a new database"
            )
            raise RunNotFinished(run=run.id, status=run.status.value, why=why)


def _begin(target: Store) -> None:
    """Mark the target half-copied, so that no worker claims a run before the copy has ended. Raises
    StoreInUse."""
    release_dead_sessions(target)
    try:
        _do(target, BeginImport())
    except StoreInUse:
        raise in_use(target) from None


def _give_key(target: Store, sealer: PayloadSealer) -> None:
    """Give the target a signing key, if it has none: runs that continue there may ask for the
    tokens of their waits. The keys of the source are not copied, so tokens that they have signed
    are not valid there."""
    with suppress(KeyMissing):  # an engine without the encryption key can export all the same
        _do(target, NeedKey(offered_key(sealer)))


def _write(target: Store, batch: list[ImportRun]) -> None:
    for answer in target.apply(batch):
        if isinstance(answer, BaseException):
            raise answer


def _do(target: Store, op: SaveSetting | NeedKey | BeginImport | EndCopy | ImportGraph) -> None:
    answer = target.apply([op])[0]
    if isinstance(answer, BaseException):
        raise answer


def _batches(view: View, runs: Iterable[RunRecord]) -> Iterator[list[ImportRun]]:
    batch: list[ImportRun] = []
    copied: set[bytes] = set()
    size = 0
    for run in (_detached(run, root) for root in runs for run in walk(view, root)):
        imported = _imported(view, run, copied)
        batch.append(imported)
        size += _size(imported)
        if len(batch) >= RUNS or size > BYTES:
            yield batch
            batch = []
            size = 0
    if batch:
        yield batch


def _detached(run: RunRecord, top: RunRecord) -> RunRecord:
    """Return a run of the tree of *top* without references to the parent of *top*, which is not
    exported."""
    if top.parent_id is None:
        return run
    if run.id != top.id:
        return msgspec.structs.replace(run, root_id=top.id)
    return msgspec.structs.replace(
        run, parent_id=None, parent_step=None, parent_index=None, root_id=None
    )


def _imported(view: View, run: RunRecord, copied: set[bytes]) -> ImportRun:
    """Return a run with its rows and payloads; payloads in *copied* are left out, because they were
    copied with another run."""
    digests = [digest for digest in view.payloads.of_run(run.id) if digest not in copied]
    copied.update(digests)
    payloads = [payload for digest in digests if (payload := view.payloads.get(digest)) is not None]
    history = view.runs.history(run.id)
    below = view.run_snapshots.belongings(run.id)
    return ImportRun(
        run,
        view.runs.tags(run.id),
        history,
        view.signals.of_run(run.id),
        below,
        payloads,
        view.runs.is_touched(run.id),
        # A replay of the whole history needs the versions before a migration, too.
        definitions=[
            definition
            for version in all_versions(history, run.version)
            for definition in view.definitions.of_route(run.namespace, run.workflow, version)
        ],
    )


def _size(op: ImportRun) -> int:
    values = [op.run.input, op.run.result, op.run.error, *(event.data for event in op.events)]
    return sum(len(value or b"") for value in values) + sum(
        payload.stored for payload in op.payloads
    )


def walk(source: View, run: RunRecord) -> Iterator[RunRecord]:
    """Yield a run and its descendants, parents first."""
    yield run
    which = RunFilter(parent_id=run.id, limit=PAGE)
    while True:
        page = source.runs.page(which)
        for child in page.runs:
            yield from walk(source, child)
        if page.next is None:
            return
        which.after = page.next


def tree(source: View, run: RunRecord) -> list[RunRecord]:
    """Return a run and its descendants, parents first."""
    return list(walk(source, run))
