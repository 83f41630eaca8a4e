"""Requests about runs: signal, cancel, replay and prune them, and read them.

``starts`` builds the requests that start runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.codec import Codec
from holdfast.core.definitions import StoredDefinition
from holdfast.core.events import Event
from holdfast.core.history import live_events
from holdfast.core.program import Definition, StepRecord, recorded_steps
from holdfast.core.runs import DEFAULT_NAMESPACE, RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.core.text import is_storable, plain_text
from holdfast.core.validation import (
    checked_count,
    checked_flag,
    checked_reason,
    checked_signal,
    checked_string,
    checked_tags,
    checked_text,
)
from holdfast.core.waits import MOST_SIGNALS
from holdfast.engine.runtime.stored_definitions import StoredDefinitions
from holdfast.errors import (
    BadOption,
    ModelNotFound,
    NamespaceBound,
    RunNotFinished,
    RunNotFound,
)
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.instants import Moment, moment
from holdfast.service.replay import in_parts, plan_replay
from holdfast.service.requests import Request, identity
from holdfast.service.result_value import result_value
from holdfast.service.retention import checked_rule, checked_statuses
from holdfast.service.run_filters import checked_text_filter, cursor_from, run_filter
from holdfast.store.retention.operations import RemoveRetention, SaveRetention
from holdfast.store.runs.list_query import RunCursor, RunFilter, RunPage
from holdfast.store.runs.operations import (
    PartlyCancelled,
    Prune,
    Pruned,
    RequestCancel,
    ResumeRun,
    SetTags,
)
from holdfast.store.signals.operations import SignalRun, WaitDelivery
from holdfast.store.store import Store

WITHOUT_RUNS = frozenset({"dmn"})
"""The kinds of definitions that are evaluated, not run."""

PAGE = 500
"""Runs that one query reads by their ids."""


class RunService:
    """Builds the operations on runs, and reads runs."""

    def __init__(
        self,
        store: Store,
        codec: Codec,
        definitions: Callable[[], Mapping[str, Definition]],
        namespace: str | None = None,
        sealer: PayloadSealer | None = None,
        stored_definitions: StoredDefinitions | None = None,
    ) -> None:
        self.store: Store = store
        self.codec: Codec = codec
        self.definitions: Callable[[], Mapping[str, Definition]] = definitions
        self.namespace: str = namespace or DEFAULT_NAMESPACE
        """The namespace of the runs that are started here."""
        self.only: str | None = namespace
        """The only namespace that may be read or changed; None if all may be."""
        self.max_signals: int = MOST_SIGNALS
        self.sealer: PayloadSealer = sealer or PayloadSealer(store)
        self.stored_definitions = stored_definitions or StoredDefinitions(store, definitions)

    def definition_of(self, workflow: Any) -> Any:
        """Return the definition of a workflow; None if it is not known here."""
        if isinstance(workflow, str):
            return self.definitions().get(workflow)
        return workflow

    def may_be_deployed(self, workflow: Any) -> bool:
        """Return whether a workflow is named, and its name is not that of code of this process: the
        store may have it."""
        if not isinstance(workflow, str):
            return False
        definition = self.definitions().get(workflow)
        return definition is None or getattr(definition, "frozen", None) is not None

    def deployed(
        self, namespace: str, name: str, version: str | None = None
    ) -> StoredDefinition | None:
        """Return the deployed definition of a name, of this version or of the one that new runs
        use; None if there is none of that name, or its kind has no runs."""
        queries = self.store.definitions
        if version is None:
            deployed = queries.current(namespace, name)
        else:
            deployed = queries.of_route(namespace, name, version)
        return next((each for each in deployed if each.kind not in WITHOUT_RUNS), None)

    def refuse_deployed(self, namespace: str, name: str, version: str | None) -> None:
        """Refuse a start by the name of a deployed definition: it has no such version, or new runs
        use none of them. Any other name may belong to the code of a worker. Raises
        ModelNotFound."""
        deployed = self.store.definitions.deployed(namespace, name=name)
        versions = [each.version for each in deployed if each.kind not in WITHOUT_RUNS]
        if not versions:
            return
        if version is None:
            raise ModelNotFound(model=name, why="all versions are deprecated: activate one of them")
        raise ModelNotFound(model=name, version=version, known=", ".join(versions))

    def definition_of_run(self, run: RunRecord) -> Definition | None:
        """Return the definition that a run was started with: one that the process has, else one
        that is stored; None if there is none."""
        definition = self.stored_definitions.find(run.namespace, run.workflow, run.version)
        return definition or self.definitions().get(run.workflow)

    # Changing a run

    def within(self, namespace: str | None) -> str | None:
        """Return the namespace to which a query is restricted; None for all of them. Raises
        NamespaceBound if *namespace* is another than the one of the engine."""
        if self.only is None:
            return namespace
        if namespace is not None and namespace != self.only:
            raise NamespaceBound(namespace=self.only, asked=namespace)
        return self.only

    def require_unbound(self, call: str) -> None:
        """Raise NamespaceBound if the engine is bound to a namespace: *call* concerns the whole
        installation."""
        if self.only is not None:
            raise NamespaceBound(
                namespace=self.only, call=call, why="the call concerns the whole installation"
            )

    def may_access(self, run_id: str) -> bool:
        """Return whether a run may be read and changed: an engine that is bound to a namespace has
        access to no other."""
        if self.only is None:
            return True
        run = self.store.runs.get(run_id)
        return run is not None and run.namespace == self.only

    def own_run_id(self, run_id: Any) -> str:
        """Return the id of a run that may be read and changed. Raises RunNotFound."""
        if self.only is None:
            return storable_run_id(run_id)
        return self.get(run_id).id

    def signal(
        self,
        run_id: str,
        name: str,
        payload: Any,
        key: str | None,
        source: str | None = None,
        wait: str | None = None,
    ) -> Request[WaitDelivery]:
        """Send a signal to a run. The answer is Delivery. Raises RunNotFound, BadOption."""
        name = checked_signal(name)
        run_id = self.own_run_id(run_id)
        data = self.codec.encode(payload, label=f"signal {name!r}")
        key = checked_text("key", key)
        source = checked_text("source", source)
        return Request(SignalRun(run_id, name, data, key, source, wait, self.max_signals), identity)

    def cancel(
        self, run_id: str, reason: str, *, force: bool, by: str | None = None
    ) -> Request[Status | PartlyCancelled]:
        """Request the cancellation of a run. The answer is its status, or PartlyCancelled: then the
        same request continues the cancellation."""
        force = checked_flag("force", force)
        return Request(
            RequestCancel(
                self.own_run_id(run_id), checked_reason(reason), force, by=checked_text("by", by)
            ),
            identity,
        )

    def resume(self, run_id: str, by: str | None = None) -> Request[Status]:
        """Put a stuck run back to work. Raises BadOption."""
        return Request(ResumeRun(self.own_run_id(run_id), checked_text("by", by)), Status)

    def set_tags(self, run_id: str, tags: Mapping[str, Any]) -> Request[dict[str, str]]:
        """Add tags to a run, change them, or remove them with the value None. The answer is all
        its tags. Raises RunNotFound, BadOption."""
        if not isinstance(tags, Mapping):
            why = 'give names and values, such as {"customer": "7"}'
            raise BadOption(option="tags", value=tags, why=why)
        kept = checked_tags({name: value for name, value in tags.items() if value is not None})
        removed = checked_tags({name: "" for name, value in tags.items() if value is None})
        changes: dict[str, str | None] = {**kept, **dict.fromkeys(removed)}
        return Request(SetTags(self.own_run_id(run_id), changes), identity)

    def replay(
        self, run_id: str, from_step: str | None, by: str | None = None
    ) -> list[Request[Any]]:
        """Put a finished run and its failed children back to work, in parts. The last answer is the
        status of the run. Raises RunNotFound, RunNotFinished, StepNotFound, HistoryGone,
        BadOption."""
        from_step = checked_string("from_step", from_step)
        by = checked_text("by", by)
        run = self.get(self.own_run_id(run_id))
        if run.status not in FINAL:
            raise RunNotFinished(run=run_id, status=run.status.value)
        plan = plan_replay(self.store, run_id, from_step, by)
        return [Request(part, identity) for part in in_parts(plan)]

    # Reading

    def get(self, run_id: str) -> RunRecord:
        """Return a run. Raises RunNotFound."""
        run = self.store.runs.get(storable_run_id(run_id))
        if run is None or (self.only is not None and run.namespace != self.only):
            raise RunNotFound(run=run_id)
        return run

    def get_many(self, run_ids: Sequence[str]) -> dict[str, RunRecord | RunNotFound]:
        """Return runs by their ids; in place of a run for which ``get`` would raise RunNotFound,
        that error."""
        runs: dict[str, RunRecord | RunNotFound] = {}
        storable = [run_id for run_id in run_ids if isinstance(run_id, str) and is_storable(run_id)]
        for first in range(0, len(storable), PAGE):
            page = self.store.runs.by_id(storable[first : first + PAGE])
            runs.update(
                (run.id, run) for run in page if self.only is None or run.namespace == self.only
            )
        return {run_id: runs.get(run_id) or RunNotFound(run=run_id) for run_id in run_ids}

    def history(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Event]:
        """Return the events of a run, opened: those with a number above *after*, at most *limit*.
        Raises RunNotFound, KeyMissing, BadOption."""
        after = checked_count("after", after)
        limit = None if limit is None else checked_count("limit", limit)
        events = self.store.runs.history(self.get(run_id).id, after, limit)
        return self.sealer.opener.events(run_id, events)

    def steps(self, run: RunRecord, history: Sequence[Event]) -> list[StepRecord]:
        """Return the steps of an opened history as the definition of the run shows them; if this
        process does not know the definition, as the history records them."""
        live = live_events(history)
        definition = self.definition_of_run(run)
        if definition is None:
            return recorded_steps(live)
        return definition.steps(run, live)

    def filter(self, filters: Mapping[str, Any]) -> RunFilter:
        """Return the filter of the options of ``engine.runs``, within the namespace of the engine.
        Raises BadOption, NamespaceBound."""
        namespace = checked_text_filter("namespace", filters.get("namespace"))
        return run_filter(filters, self.within(namespace), self.store.now())

    def matching_ids(self, which: RunFilter, limit: int) -> Iterator[str]:
        """Yield the ids of the runs that a filter selects, from new to old; one query reads *limit*
        of them."""
        which = msgspec.structs.replace(which, after=None, limit=limit)
        while True:
            places = self.store.runs.places(which)
            yield from (place.id for place in places)
            if len(places) < limit:
                return
            which.after = places[-1]

    def page(self, which: RunFilter, *, after: str | None, limit: int) -> RunPage:
        """Return some of the runs that a filter selects, from new to old, as they are stored.
        *after* is the cursor of the previous page, or the id of its last run. Raises BadOption,
        RunNotFound."""
        limit = checked_count("limit", limit)
        cursor = None if after is None else self._cursor(after)
        return self.store.runs.page(msgspec.structs.replace(which, after=cursor, limit=limit))

    def _cursor(self, after: str) -> RunCursor:
        cursor = cursor_from(after)
        # A chosen id may look like a cursor: the run with this id comes first.
        run = self.store.runs.get(plain_text(after))
        if run is not None and self.only in (None, run.namespace):
            return RunCursor(run.created_at, run.id)
        if cursor is None:
            why = "give the cursor of the previous page, or the id of its last run"
            raise RunNotFound(run=after, why=why)
        return cursor

    def value(self, run: RunRecord) -> Any:
        """Return the result of a finished run. Raises the error with which it ended, and KeyMissing
        if it cannot be read here."""
        signature = getattr(self.definitions().get(run.workflow), "signature", None)
        return result_value(run, self.sealer, self.codec, signature)

    # Maintenance

    def prune(
        self,
        older_than: Moment,
        statuses: Sequence[str],
        *,
        batch: int,
        after: str,
        workflow: str | None = None,
    ) -> Request[Pruned]:
        """Delete up to *batch* finished runs that ended before *older_than*; *after* is the place
        where the last batch ended. The answer is Pruned. Raises BadOption."""
        final = checked_statuses(statuses)
        limit = checked_count("batch", batch, least=1)
        before = moment(older_than, self.store.now(), sign=-1)
        op = Prune(
            before,
            final or sorted(FINAL),
            limit=limit,
            namespace=self.only,
            after=after,
            workflow=checked_string("workflow", workflow),
        )
        return Request(op, identity)

    def retention(self, name: str, **options: Any) -> Request[None]:
        """Create a retention rule, or change the given settings of it. Raises BadOption,
        UnknownWorkflow, NamespaceBound."""
        self.require_unbound("retention.set")
        checked = checked_string("name", name)
        stored = next((rule for rule in self.store.retention.rules() if rule.name == checked), None)
        known = {route.workflow for route in self.store.runs.routes().values()}
        known |= set(self.definitions())
        rule = checked_rule(name, known=known, stored=stored, **options)
        return Request(SaveRetention(rule, merges=True, expected=stored), lambda answer: None)

    def remove_retention(self, name: str) -> Request[None]:
        """Remove a retention rule. Raises NamespaceBound."""
        self.require_unbound("retention.remove")
        return Request(RemoveRetention(checked_string("name", name)), lambda answer: None)


def storable_run_id(run_id: Any) -> str:
    """Return *run_id* as text, without looking for the run. Raises RunNotFound if no database could
    store it, for then no run has this id."""
    if not isinstance(run_id, str) or not is_storable(run_id):
        raise RunNotFound(run=run_id)
    return plain_text(run_id)
