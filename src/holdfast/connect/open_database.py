"""``OpenDatabase``: an installation as its operators see it.

It has an engine without a worker for requests, and reads that combine several records into views:
a run with its worker and tags, a lane with the number of its runs. Values that cannot be opened
here are replaced by a text that says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import msgspec

from holdfast.connect import run_drawings, run_views
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.components import Components
from holdfast.connect.database import facts_of
from holdfast.connect.dry_replay import DryReplay
from holdfast.connect.open_store import file_of, open_store
from holdfast.connect.run_lookup import SHORTEST, find_run
from holdfast.connect.stored_versions import stored_versions
from holdfast.connect.text_steps import is_dry_run, text_steps_shown
from holdfast.core import associated_data
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.codec import Codec, JsonCodec
from holdfast.core.duration import Duration
from holdfast.core.events import Event, EventKind
from holdfast.core.gates.model import GateStatus
from holdfast.core.program import Definition
from holdfast.core.runs import DEFAULT_NAMESPACE, RunRecord
from holdfast.core.status import Status
from holdfast.core.streams.model import Progress
from holdfast.core.text import nearest
from holdfast.errors import FlowNotFound, GateNotFound, RunNotFound
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.instants import Moment, moment
from holdfast.store.database import CheckProgress
from holdfast.store.gates.operations import GateFilter
from holdfast.store.retention.operations import PruneFilter
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.store import Store
from holdfast.views import (
    budgets,
    events,
    runs,
    steps,
    streams,
)
from holdfast.views.budgets import ReservationView
from holdfast.views.events import EventView
from holdfast.views.gates import GateView
from holdfast.views.history import Opened
from holdfast.views.runs import RunDetailView, RunView
from holdfast.views.streams import ProgressView
from holdfast.views.values import decoder, instant
from holdfast.views.why import WhyView

PAGE = 500


@contextmanager
def opened(
    url: str, *, create: bool, codec: Codec | None, namespace: str | None
) -> Iterator[OpenDatabase]:
    """Open a database for an operator. Without *create* it must exist; with *namespace*, nothing
    outside that namespace is read or changed."""
    # An operator's process runs no user code that could open the same file with the sqlite3 module.
    options: dict[str, Any] = {} if file_of(url) is None else {"driver": "safest"}
    codec_name = JsonCodec.name if codec is None else codec.name
    store = open_store(url, create=create, codec=codec_name, **options)
    try:
        engine = Engine(
            url, store=store, workflows=[], codec=codec, read_only_values=True, namespace=namespace
        )
        yield OpenDatabase(engine, namespace)
    finally:
        store.close()


class OpenDatabase:
    """An open installation: an engine for requests, and reads that return views."""

    def __init__(self, engine: Engine, namespace: str | None) -> None:
        self.engine: Engine = engine
        self.namespace: str | None = namespace
        """The only namespace that is read; None for all."""
        self._parts: Components = engine._calls.open()
        self._store: Store = self._parts.store
        self._sealer: PayloadSealer = self._parts.sealer

    def dry_replay(self, definitions: Mapping[str, Definition], *, limit: Duration) -> DryReplay:
        """Return a dry replay of the runs of this database with the code of *definitions*."""
        return DryReplay(self._parts, definitions, namespace=self.namespace, limit=limit)

    def stored_versions(self) -> dict[str, Definition]:
        """Return the texts and models that runs of this database keep, by name."""
        return stored_versions(self._parts)

    @property
    def now(self) -> datetime:
        """The current time of the database."""
        return instant(self._store.now())

    # Runs

    def find(self, name: str, *, mine: bool = False) -> RunView:
        """Return the run with the id *name*, with the id prefix *name*, or the newest for "last".

        The search is limited to the namespace of this object. Without one it covers all namespaces
        or, if *mine*, the default namespace. Raises RunNotFound."""
        namespace = self.namespace or (DEFAULT_NAMESPACE if mine else None)
        return self._view(find_run(self._store.runs, name, namespace))

    def similar_workflow(self, name: str) -> str | None:
        """Return the workflow with runs in this database that *name* is most likely a misspelling
        of; None if there are runs of *name*, or if no name is close."""
        names = {
            route.workflow
            for route in self._store.runs.routes().values()
            if self.namespace in (None, route.namespace)
        }
        if name in names:
            return None
        return nearest(name, names)

    def _find(self, **conditions: Any) -> list[RunRecord]:
        return self._store.runs.find(RunFilter(**conditions))

    def get(self, run_id: str) -> RunView | None:
        """Return a run by its id; None if there is none."""
        run = self._store.runs.get(run_id)
        return None if run is None else self._view(run)

    def _view(self, run: RunRecord, *, large: bool = False) -> RunView:
        view = run_views.listed(self._parts, [run], large=large)[0]
        run_views.add_map_progress(self._parts, view)
        return view

    def details(self, run_id: str) -> RunDetailView:
        """Return a run with its progress, children, steps and history, and with the values that are
        kept apart. Raises RunNotFound."""
        record = self._store.runs.get(run_id)
        if record is None:
            raise RunNotFound(run=run_id)
        history = self.history(run_id, large=True)
        text_steps = text_steps_shown(self._parts, record)
        return runs.details(
            self._view(record, large=True),
            attempts=run_views.attempts(self._parts, run_id),
            progress=self.progress(run_id),
            children=[runs.child_of(child) for child in self._store.children.all(run_id)],
            steps=steps.of(history, ended=self._store.children.map_progress(run_id))
            if text_steps is None
            else text_steps,
            history=history,
            dry_run=is_dry_run(self._parts, record),
        )

    def events(self, run_id: str) -> list[Event]:
        """Return the events of a run as they are stored."""
        return self._store.runs.history(run_id)

    def opened(self, run_id: str) -> Opened:
        """Return the function that opens the values of some events of a run, for people."""
        return run_drawings.opened_events(self._parts, run_id)

    def history(self, run_id: str, *, large: bool = False) -> list[EventView]:
        """Return the history of a run; values that are kept apart only with *large*."""
        recorded = self._store.runs.history(run_id)
        shown = self._sealer.display.events(run_id, recorded, large=large)
        return events.history_of(shown, decoder(self._parts.codec))

    def progress(self, run_id: str) -> ProgressView | None:
        """Return the last progress that a run reported."""
        progress = self._store.streams.progress(run_id)
        if progress is None:
            return None
        place = associated_data.progress(run_id)
        message = self._sealer.display.text(progress.message, place)
        return streams.progress_of(Progress(progress.percent, message, progress.at))

    def children(self, run_id: str, step: str | None, limit: int) -> list[RunView]:
        """Return the first children of a run, of one step or (with None) of all."""
        if step is None:
            children = self._find(parent_id=run_id, limit=limit)
        else:
            ids = [child.id for child in self._store.children.all(run_id, [step])[:limit]]
            children = [run for child in ids if (run := self._store.runs.get(child)) is not None]
        views = run_views.listed(self._parts, children)
        return sorted(views, key=lambda run: (run.parent_index or 0, run.id))

    def replayed_children(self, run_id: str) -> list[str]:
        """Return the ids of all descendants that the last replay of a run has put back to work."""
        replays = [
            event
            for event in self._store.runs.history(run_id)
            if event.kind == EventKind.RUN_REPLAYED
        ]
        if not replays:
            return []
        descendants: list[str] = []
        for child in msgspec.json.decode(replays[-1].data or b"{}").get("children", ()):
            descendants += [child, *self.replayed_children(child)]
        return descendants

    def why(self, name: str) -> WhyView:
        """Explain the status of the graph member, run or flow *name*. Raises RunNotFound."""
        if self._store.graphs.member(name) is not None:
            return self.engine.why(name)
        try:
            run = self.find(name)
        except RunNotFound:
            try:
                return self.engine.flows.why(name)
            except FlowNotFound:
                pass
            raise
        return self.engine.why(run.id)

    def count_prunable(
        self, older_than: Moment, statuses: Sequence[str], workflow: str | None
    ) -> int:
        """Return the number of runs that pruning would delete: whole trees of finished runs."""
        which = PruneFilter(
            before=moment(older_than, self._store.now(), sign=-1),
            statuses=statuses,
            namespace=self.namespace,
            workflow=workflow,
        )
        return self._store.retention.count_prunable(which).runs

    # Gates

    def find_gate(self, name: str) -> GateView:
        """Return the gate with the id or id prefix *name*, the newest open gate for "last", or the
        only open gate of the run *name*. Raises GateNotFound."""
        find = self._store.gates.find
        if name == "last":
            open_gates = find(
                GateFilter(statuses=[GateStatus.OPEN.value], limit=10_000, namespace=self.namespace)
            )
            if not open_gates:
                raise GateNotFound(gate=name, why="no gate is open")
            return self.engine.gates.get(open_gates[-1].id)
        try:
            return self.engine.gates.get(name)
        except GateNotFound:
            if len(name) < SHORTEST:
                raise
            page = find(GateFilter(after=name, limit=2, namespace=self.namespace))
            matches = [gate for gate in page if gate.id.startswith(name)]
            if len(matches) != 1:
                raise
            return self.engine.gates.get(matches[0].id)

    # Graphs

    def graphs_by_prefix(self, prefix: str) -> list[str]:
        """Return the ids of at most two graphs that begin with *prefix*."""
        return self._parts.graphs.ids_by_prefix(prefix, 2)

    # Budgets

    def reservations(self, budget: str) -> list[ReservationView]:
        """Return the amounts that runs have reserved in a budget."""
        return [
            budgets.reservation_of(run_id, dimension, amount, at)
            for run_id, _, dimension, amount, at in self._store.budgets.reservations(budget)
        ]

    def waiting_for(self, budget: str) -> list[str]:
        """Return the ids of the runs that wait for room in a budget; looks at 1000 blocked runs."""
        blocked = self._find(statuses=[Status.BLOCKED.value], limit=1000)
        return [
            run.id
            for run in blocked
            if budget in budget_rules.names(msgspec.json.decode(run.waits or b"[]"))
        ]

    # The database

    def check(self, progress: CheckProgress | None = None) -> list[str]:
        """Check the file, all rows and all laws, and return a message for each fault."""
        return self.engine._calls.open().check(progress)

    def keys_in_use(self) -> dict[str, int]:
        """Return the number of values that are encrypted with each key."""
        return self._store.payloads.keys_in_use()

    def knows_key(self, key: str) -> bool:
        """Return whether values under an encryption key can be opened here."""
        cipher = self._sealer.cipher
        return cipher is not None and cipher.knows(key)

    def counts(self) -> dict[str, int]:
        """Return the number of runs by status."""
        return self._store.runs.counts()

    def broken_laws(self) -> list[str]:
        """Return the laws that the data of the database violates."""
        return self._store.check()

    def broken_live_laws(self) -> list[str]:
        """Return the laws that leased runs violate: their number does not grow with the data."""
        return self._store.check_leases()

    def facts(self) -> dict[str, Any]:
        """Return facts about the driver and the file or server."""
        return self._store.info()

    def info(self) -> dict[str, Any]:
        """Return facts about the database: driver, version, size, settings, seal."""
        return facts_of(self._store)
