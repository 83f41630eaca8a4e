"""``RemoteDatabase``: an installation behind a server, as the command line sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.codec import Codec
from holdfast.core.duration import Duration
from holdfast.core.event_table import TIMED
from holdfast.core.events import Event, EventKind
from holdfast.core.program import Definition
from holdfast.errors import FlowNotFound, GateNotFound, NotRemote, RunNotFound
from holdfast.remote.client import Client
from holdfast.remote.namespaces import call
from holdfast.views import runs as run_views
from holdfast.views.budgets import ReservationView
from holdfast.views.events import EventView
from holdfast.views.gates import GateView
from holdfast.views.runs import ChildView, RunDetailView, RunView
from holdfast.views.streams import ProgressView
from holdfast.views.values import micros, timed_again
from holdfast.views.why import WhyView

if TYPE_CHECKING:
    from holdfast.remote.dry_replay import RemoteDryReplay

SHORTEST = 6
"""The minimum length of a prefix that may stand for an id."""


@contextmanager
def opened_remote(
    url: str, namespace: str | None, codec: Codec | None = None
) -> Iterator[RemoteDatabase]:
    """Open an installation behind a server; its API key is in HOLDFAST_API_KEY. Exported runs are
    read with *codec*. Raises BadUrl, BadOption."""
    yield RemoteDatabase(Client(url), namespace, codec)


class RemoteDatabase:
    """Has the reads of ``OpenDatabase`` that a server can answer; the others raise NotRemote."""

    def __init__(self, client: Client, namespace: str | None, codec: Codec | None = None) -> None:
        self.engine: Any = client
        self.namespace: str | None = namespace
        self._codec: Codec | None = codec
        self._calls = client._calls
        self._histories: dict[str, dict[int, EventView]] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotRemote(call=name)

    def dry_replay(
        self, definitions: Mapping[str, Definition], *, limit: Duration
    ) -> RemoteDryReplay:
        """Return a dry replay of the live runs with the code of *definitions*."""
        # Here: saves other commands the import of the engine.
        from holdfast.remote.dry_replay import RemoteDryReplay

        return RemoteDryReplay(
            self.engine, definitions, namespace=self.namespace, codec=self._codec, limit=limit
        )

    def stored_versions(self) -> dict[str, Definition]:
        """Return no definitions: over HTTP, runs are judged by the files that are named."""
        return {}

    @property
    def now(self) -> datetime:
        """The current time."""
        return datetime.now(UTC)

    def find(self, name: str, *, mine: bool = False) -> RunView:
        """Return the run with the id or id prefix *name*, or the newest for "last". Raises
        RunNotFound."""
        if name == "last":
            newest: RunView | None = self._runs(roots=True).first()
            if newest is None:
                raise RunNotFound(run="last", why="there are no runs yet")
            return newest
        run = self.get(name)
        if run is not None:
            return run
        if len(name) < SHORTEST:
            raise RunNotFound(run=name)
        matches = self._runs(id_prefix=name).page(limit=2)
        if len(matches) > 1:
            raise RunNotFound(run=name, why="several run ids begin with it: give more characters")
        if not matches:
            raise RunNotFound(run=name)
        match: RunView = matches[0]
        return match

    def _runs(self, **filters: Any) -> Any:
        return self.engine.runs(namespace=self.namespace, **filters)

    def get(self, run_id: str) -> RunView | None:
        """Return a run by its id; None if there is none."""
        try:
            run: RunView = call(self._calls, "run.record", {"id": run_id})
        except RunNotFound:
            return None
        if self.namespace not in (None, run.namespace):
            return None
        return run

    def details(self, run_id: str) -> RunDetailView:
        """Return a run with its progress, children, steps and history. Raises RunNotFound."""
        run = self.engine.run(run_id)
        children = self.children(run_id, None, 500)
        return run_views.details(
            run.record,
            attempts=run.attempts(),
            progress=self.progress(run_id),
            children=[
                ChildView(id=child.id, step=child.parent_step or "", status=child.status)
                for child in children
            ],
            steps=run.steps(),
            history=run.history(),
        )

    def history(self, run_id: str, *, large: bool = False) -> list[EventView]:
        """Return the history of a run."""
        events: list[EventView] = self.engine.run(run_id).history()
        return events

    def events(self, run_id: str) -> list[Event]:
        """Return the events of a run, without their values."""
        return [_event(view) for view in self._history(run_id).values()]

    def opened(self, run_id: str) -> Callable[[Sequence[Event]], list[EventView]]:
        """Return the function that returns some events of a run with their values, for people."""
        return lambda events: [self._history(run_id)[event.seq] for event in events]

    def _history(self, run_id: str) -> dict[int, EventView]:
        if run_id not in self._histories:
            views = self.engine.run(run_id).history()
            self._histories[run_id] = {view.seq: _with_times(view) for view in views}
        return self._histories[run_id]

    def replayed_children(self, run_id: str) -> list[str]:
        """Return the ids of all descendants that the last replay of a run has put back to work."""
        views = self.engine.run(run_id).history()
        replays = [view for view in views if view.kind == EventKind.RUN_REPLAYED]
        children = replays[-1].data.get("children", ()) if replays else ()
        return [run for child in children for run in (child, *self.replayed_children(child))]

    def graphs_by_prefix(self, prefix: str) -> list[str]:
        """Return no graphs: over HTTP, graphs are named by their whole ids."""
        return []

    def reservations(self, budget: str) -> list[ReservationView]:
        """Return no reservations: a server shows their sums, in the budget itself."""
        return []

    def waiting_for(self, budget: str) -> list[str]:
        """Return the ids of the runs that wait for room in a budget; looks at 500 blocked runs."""
        blocked = self._runs(status="blocked").page(limit=500)
        return [run.id for run in blocked if budget in str(run.waits)]

    def progress(self, run_id: str) -> ProgressView | None:
        """Return the last progress that a run reported."""
        answer: Any = self.engine.streams.progress(run_id)
        if answer is None:
            return None
        return ProgressView(**answer)

    def children(self, run_id: str, step: str | None, limit: int) -> list[RunView]:
        """Return the first children of a run, of one step or (with None) of all."""
        page = self._runs(parent_id=run_id).page(limit=min(limit, 500))
        chosen = [run for run in page if step is None or run.parent_step == step]
        return sorted(chosen, key=lambda run: (run.parent_index or 0, run.id))

    def similar_workflow(self, name: str) -> str | None:
        """Return None: a server does not compare names."""
        return None

    def why(self, name: str) -> WhyView:
        """Explain the status of the run or flow *name*. Raises RunNotFound."""
        try:
            view: WhyView = self.engine.why(self.find(name).id)
        except RunNotFound:
            try:
                view = self.engine.flows.why(name)
            except FlowNotFound:
                pass
            else:
                return view
            raise
        return view

    def find_gate(self, name: str) -> GateView:
        """Return the gate with the id *name*, the newest open gate for "last", or the only open
        gate of the run *name*. Raises GateNotFound."""
        if name == "last":
            gates = list(self.engine.gates.list(limit=500))
            if not gates:
                raise GateNotFound(gate=name, why="no gate is open")
            newest: GateView = gates[-1]
            return newest
        gate: GateView = self.engine.gates.get(name)
        return gate


def _with_times(view: EventView) -> EventView:
    """Return an event whose own data has times again, which JSON has as texts."""
    if view.kind not in TIMED:
        return view
    return msgspec.structs.replace(view, data=timed_again(view.data))


def _event(view: EventView) -> Event:
    """Return the event of a view, as the timeline reads it."""
    return Event(
        kind=view.kind,
        step=view.step,
        data=None if view.data is None else msgspec.json.encode(view.data),
        error=None if view.error is None else msgspec.json.encode(view.error),
        attempt=view.attempt,
        started_at=None if view.started_at is None else micros(view.started_at),
        at=micros(view.at),
        seq=view.seq,
        role=view.role,
    )
