"""Requests about runs: start, signal, cancel, replay and prune them, and read them.

A request is an operation together with the decoder of its answer. It does no I/O, so the blocking
and the asynchronous engine share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from holdfast.core import associated_data, duration
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.codec import Codec
from holdfast.core.duration import Duration
from holdfast.core.events import Event
from holdfast.core.history import live_events
from holdfast.core.payload import Fetch, Payload
from holdfast.core.program import Definition, StepRecord, is_definition, recorded_steps
from holdfast.core.runs import DEFAULT_NAMESPACE, NewRun, Route, RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.core.tasks.policy import policy_of
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.core.validation import (
    checked_capabilities,
    checked_count,
    checked_flag,
    checked_many,
    checked_reason,
    checked_run_id,
    checked_signal,
    checked_string,
    checked_tags,
    checked_text,
    checked_version,
    priority_of,
)
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import (
    BadDuration,
    BadOption,
    NamespaceBound,
    RunNotFinished,
    RunNotFound,
    UnknownWorkflow,
)
from holdfast.errors.base import shown
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.replay import in_parts, plan_replay
from holdfast.service.result_value import result_value
from holdfast.service.retention import checked_rule, checked_statuses
from holdfast.store.database import Operation, Started
from holdfast.store.retention.operations import RemoveRetention, SaveRetention
from holdfast.store.runs.list_query import RunFilter
from holdfast.store.runs.operations import (
    DebounceStart,
    PartlyCancelled,
    Prune,
    Pruned,
    RequestCancel,
    ResumeRun,
    StartRuns,
)
from holdfast.store.signals.operations import SignalRun
from holdfast.store.store import Store
from holdfast.store.waits.operations import MOST_SIGNALS, WaitDelivery

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

PART = 2000
"""Runs that one transaction starts, at most: all other writers wait meanwhile."""

PAGE = 500
"""Runs that one query reads by their ids."""

Moment = Duration | datetime
"""A time, or a duration from now."""

Lease = Callable[[Route], str | None]
"""Returns the session to which a new run is leased at its start; None to queue it."""

StartOptions = Mapping[str, Any]

Answer_co = TypeVar("Answer_co", covariant=True)


class Request(NamedTuple, Generic[Answer_co]):
    """An operation, and the decoder of its answer."""

    op: Operation
    decode: Callable[[Any], Answer_co]


StartRequest = tuple[list[NewRun], Request[list[Started]]]


def identity(answer: Any) -> Any:
    """Return an answer that needs no decoding."""
    return answer


class RunService:
    """Builds the operations on runs, and reads runs."""

    def __init__(
        self,
        store: Store,
        codec: Codec,
        definitions: Callable[[], Mapping[str, Definition]],
        namespace: str | None = None,
        sealer: PayloadSealer | None = None,
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

    # Starting

    def start(
        self,
        workflow: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: StartOptions,
        lease: Lease,
    ) -> StartRequest:
        """Start one run. The answer is its id. Raises BadOption, BadDuration, UnknownWorkflow."""
        if any(options.get(name) is not None for name in DEBOUNCE_OPTIONS):
            return self._debounce(workflow, args, kwargs, options)
        runs = [self._new_run(workflow, args, kwargs, options, lease)]
        return runs, Request(StartRuns(runs), identity)

    def _debounce(
        self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any], options: StartOptions
    ) -> StartRequest:
        """Start a run that absorbs further starts of its key until it begins."""
        debounce = debounce_options(options)
        if debounce.size is not None:
            if len(args) != 1 or kwargs:
                raise BadOption(
                    option="batch",
                    why="a start with batch has one argument, an item: the workflow receives the"
                    " list of items",
                )
            args = ([args[0]],)
        run = self._new_run(workflow, args, kwargs, {**options, "key": None}, lambda route: None)

        def add(old: bytes) -> bytes:
            arguments = self.codec.decode(old)
            arguments[0].extend(self.codec.decode(run.input)[0])
            return self.codec.encode(arguments, what="the arguments")

        def merge(run_id: str, old: bytes, fetch: Fetch) -> tuple[bytes, list[Payload]]:
            return self.sealer.remake(
                old, add, fetch, run_id, place=associated_data.run_input(run_id)
            )

        op = DebounceStart(
            run=run,
            key=debounce.key,
            quiet=debounce.quiet,
            longest=debounce.longest,
            size=debounce.size,
            merge=None if debounce.size is None else merge,
        )
        return [run], Request(op, identity)

    def start_many(
        self, workflow: Any, items: Iterable[Any], options: StartOptions, lease: Lease
    ) -> list[StartRequest]:
        """Start one run per item, in parts of at most PART runs. Each part is started as a whole or
        not at all. The answers are the ids of the runs. Raises BadOption."""
        if any(options.get(name) is not None for name in ("id", "key", *DEBOUNCE_OPTIONS)):
            raise BadOption(
                option="id", why="many runs cannot share an id or a key: start them one by one"
            )
        known = self.known(workflow)
        runs: list[NewRun] = []
        for item in checked_many("items", items):
            if runs:
                runs.append(self._like(runs[0], self._encoded(known, (item,), {}), options))
            else:
                runs.append(self._new_run(workflow, (item,), {}, options, lease))
        parts = [runs[first : first + PART] for first in range(0, len(runs), PART)]
        return [(part, Request(StartRuns(part), identity)) for part in parts]

    def _like(self, first: NewRun, data: bytes, options: StartOptions) -> NewRun:
        """Return a new run with the options of *first* and another input: saves checking the
        options for every run."""
        run_id = new_id()
        budgets = first.budgets
        limits = None
        if first.limits is not None:  # each run has a budget of its own
            budgets, limits = budget_rules.drawn_on(options["budget"], run_id)
        return msgspec.structs.replace(first, id=run_id, input=data, budgets=budgets, limits=limits)

    def _new_run(
        self,
        workflow: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: StartOptions,
        lease: Lease,
    ) -> NewRun:
        route = self.route(workflow, options)
        data = self.input_of(workflow, args, kwargs)
        now = self.store.now()
        delay = options.get("delay")
        run_id = checked_run_id(options.get("id")) or new_id()
        budgets, limits = budget_rules.drawn_on(options.get("budget"), run_id)
        return NewRun(
            id=run_id,
            route=route,
            input=data,
            priority=priority_of(options.get("priority", 0)),
            key=checked_text("key", options.get("key")),
            tags=checked_tags(options.get("tags")),
            available_at=_stored_instant(delay, now),
            deadline=_stored_instant(options.get("deadline"), now),
            session_id=None if delay is not None else lease(route),
            policy=_encoded_policy(options.get("policy")),
            budgets=budgets,
            limits=limits,
            share=checked_text("share", options.get("share")),
            same=self.sealer.is_same,
        )

    def route(self, workflow: Any, options: Mapping[str, Any]) -> Route:
        """Return the route of a run of this workflow: what a worker must offer to serve it. Raises
        BadOption, UnknownWorkflow, NamespaceBound."""
        if isinstance(workflow, str):
            known = self.definitions().get(workflow)
            name = workflow
            version = "1"
            lane = "default"
            capabilities: tuple[str, ...] = ()
            if known is None and (not name.strip() or not checked_text("workflow", name)):
                raise BadOption(option="workflow", value=name, why="give the name of a workflow")
        else:
            known = workflow
            name = version = lane = ""
            capabilities = ()
            if known is None:
                raise UnknownWorkflow(workflow=None, why="give a workflow or its name")
        if known is not None:
            if not is_definition(known):
                raise UnknownWorkflow(
                    workflow=getattr(known, "__name__", shown(known)),
                    why="this is not a workflow: decorate the function with @workflow",
                )
            name = known.name
            version = known.version
            lane = known.lane
            capabilities = known.capabilities
        wanted = options.get("capabilities")
        return Route(
            self.within(checked_text("namespace", options.get("namespace"))) or self.namespace,
            name,
            _version(options.get("version"), version),
            checked_text("lane", options.get("lane")) or lane,
            tuple(capabilities) if wanted is None else checked_capabilities(wanted),
        )

    def input_of(self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Return the encoded arguments of a run, checked against the signature of the workflow if
        it is known here."""
        return self._encoded(self.known(workflow), args, kwargs)

    def known(self, workflow: Any) -> Any:
        """Return the definition of a workflow; None if it is not known here."""
        return self.definitions().get(workflow) if isinstance(workflow, str) else workflow

    def _encoded(self, known: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        signature = getattr(known, "signature", None)
        if signature is None:
            return self.codec.encode(
                {"args": list(args), "kwargs": dict(kwargs)} if kwargs else list(args),
                what="the arguments",
            )
        data: bytes = signature.encode_checked(self.codec, tuple(args), dict(kwargs))
        return data

    # Changing a run

    def within(self, namespace: str | None) -> str | None:
        """Return the namespace to which a query is restricted; None for all of them. Raises
        NamespaceBound if *namespace* is another than the one of the engine."""
        if self.only is None:
            return namespace
        if namespace is not None and namespace != self.only:
            raise NamespaceBound(namespace=self.only, asked=namespace)
        return self.only

    def unbound(self, call: str) -> None:
        """Raise NamespaceBound if the engine is bound to a namespace: *call* concerns the whole
        installation."""
        if self.only is not None:
            raise NamespaceBound(
                namespace=self.only, call=call, why="the call concerns the whole installation"
            )

    def is_mine(self, run_id: str) -> bool:
        """Return whether a run may be read and changed: an engine that is bound to a namespace has
        access to no other."""
        if self.only is None:
            return True
        run = self.store.runs.get(run_id)
        return run is not None and run.namespace == self.only

    def mine(self, run_id: Any) -> str:
        """Return the id of a run that may be read and changed. Raises RunNotFound."""
        return run_named(run_id) if self.only is None else self.get(run_id).id

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
        run_id = self.mine(run_id)
        data = self.codec.encode(payload, what=f"signal {name!r}")
        key = checked_text("key", key)
        source = checked_text("source", source)
        return Request(SignalRun(run_id, name, data, key, source, wait, self.max_signals), identity)

    def cancel(self, run_id: str, reason: str, *, force: bool) -> Request[Status | PartlyCancelled]:
        """Request the cancellation of a run. The answer is its status, or PartlyCancelled: then the
        same request continues the cancellation."""
        force = checked_flag("force", force)
        return Request(RequestCancel(self.mine(run_id), checked_reason(reason), force), identity)

    def resume(self, run_id: str) -> Request[Status]:
        """Put a stuck run back to work."""
        return Request(ResumeRun(self.mine(run_id)), Status)

    def replay(self, run_id: str, from_step: str | None) -> list[Request[Any]]:
        """Put a finished run and its failed children back to work, in parts. The last answer is the
        status of the run. Raises RunNotFound, RunNotFinished, StepNotFound, HistoryGone."""
        from_step = checked_string("from_step", from_step)
        run = self.get(self.mine(run_id))
        if run.status not in FINAL:
            raise RunNotFinished(run=run_id, status=run.status.value)
        return [
            Request(part, identity) for part in in_parts(plan_replay(self.store, run_id, from_step))
        ]

    # Reading

    def get(self, run_id: str) -> RunRecord:
        """Return a run. Raises RunNotFound."""
        run = self.store.runs.get(run_named(run_id))
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

    def record(self, run_id: str) -> RunRecord:
        """Return a run with all values opened that can be opened here. Raises RunNotFound."""
        return self.sealer.readable(self.get(run_id), large=True)

    def history(self, run_id: str) -> list[Event]:
        """Return the events of a run, opened. Raises RunNotFound, KeyMissing."""
        return self.sealer.events(run_id, self.store.runs.history(self.get(run_id).id))

    def steps(self, run_id: str) -> list[StepRecord]:
        """Return the steps of a run as its definition shows them; if this process does not know
        the definition, as the history records them. Raises RunNotFound, KeyMissing."""
        run = self.get(run_id)
        history = live_events(self.history(run_id))
        definition = self.definitions().get(run.workflow)
        return recorded_steps(history) if definition is None else definition.steps(run, history)

    def find(self, **filters: Any) -> list[RunRecord]:
        """Return the runs that match, from new to old. Values that are kept apart are not
        loaded."""
        return [self.sealer.readable(run) for run in self.store.runs.find(self._filter(filters))]

    def _filter(self, filters: dict[str, Any]) -> RunFilter:
        status = filters.pop("status", None)
        statuses = known_statuses(status)
        if status is not None and not statuses:
            # An empty list must not select all runs: a bulk verb would change every one of them.
            raise BadOption(option="status", value=status, why="name at least one status")
        for name in ("since", "until"):
            if filters.get(name) is not None:
                filters[name] = moment(filters[name], self.store.now(), sign=-1)
        filters = {name: value for name, value in filters.items() if value is not None}
        for name in {"namespace", "workflow", "worker", "parent_id", "before"} & set(filters):
            if not isinstance(filters[name], str):
                raise BadOption(option=name, value=filters[name], why="the value must be a text")
            filters[name] = plain_text(filters[name])
        filters["namespace"] = self.within(filters.get("namespace"))
        if "limit" in filters:
            filters["limit"] = checked_count("limit", filters["limit"])
        if "roots" in filters:
            filters["roots"] = checked_flag("roots", filters["roots"])
        if "tags" in filters:
            filters["tags"] = checked_tags(filters["tags"])
        try:
            return RunFilter(statuses=statuses, **filters)
        except TypeError as error:
            raise BadOption(option="filter", why=str(error)) from None

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
        self.unbound("retention.set")
        checked = checked_string("name", name)
        stored = next((rule for rule in self.store.retention.rules() if rule.name == checked), None)
        known = {route.workflow for route in self.store.runs.routes().values()} | set(
            self.definitions()
        )
        return Request(
            SaveRetention(checked_rule(name, known=known, stored=stored, **options)),
            lambda answer: None,
        )

    def remove_retention(self, name: str) -> Request[None]:
        """Remove a retention rule. Raises NamespaceBound."""
        self.unbound("retention.remove")
        return Request(RemoveRetention(checked_string("name", name)), lambda answer: None)


def known_statuses(status: Any) -> list[Any]:
    """Return one status, or several, as a list. Raises BadOption if one is unknown."""
    if status is None:
        return []
    statuses = [status] if isinstance(status, str) else checked_many("status", status)
    unknown = [item for item in statuses if not is_one_of(item, list(Status))]
    if unknown:
        raise BadOption(option="status", value=unknown[0], known=", ".join(Status))
    return statuses


DEBOUNCE_OPTIONS = ("debounce", "max_wait", "batch", "within")


class DebounceOptions(NamedTuple):
    """The options of a debounced start. ``quiet`` and ``longest`` are in microseconds: the run
    begins when no start came for ``quiet``, or ``longest`` after the first one, or when ``size``
    starts have come."""

    key: str
    quiet: int
    longest: int
    size: int | None


def refuse_debounce(options: StartOptions) -> None:
    """Raise BadOption for options that debounce a start, which is impossible in a transaction of
    the caller."""
    for name in DEBOUNCE_OPTIONS:
        if options.get(name) is not None:
            raise BadOption(
                option=name, why="a start within your own transaction cannot be debounced"
            )


def debounce_options(options: StartOptions) -> DebounceOptions:
    """Return the checked options of a debounced start. Raises BadOption, BadDuration."""
    key = checked_text("key", options.get("key"))
    debounce = options.get("debounce")
    size = options.get("batch")
    if key is None:
        raise BadOption(
            option="key", why="debounced starts need a key: starts of a key share a run"
        )
    if (debounce is None) == (size is None):
        raise BadOption(
            option="debounce", why="give either debounce (with max_wait) or batch (with within)"
        )
    if options.get("id") is not None or options.get("delay") is not None:
        raise BadOption(option="delay", why="a debounced start has neither an id nor a delay")
    if debounce is not None:
        quiet = duration.parse(debounce)
        longest = (
            10 * quiet if options.get("max_wait") is None else duration.parse(options["max_wait"])
        )
        return DebounceOptions(key, quiet, longest, None)
    if (
        isinstance(size, bool)
        or not isinstance(size, int)
        or size < 1
        or options.get("within") is None
    ):
        raise BadOption(
            option="batch",
            value=size,
            why='give a number of starts, and within="2s" for the time to collect them',
        )
    within = duration.parse(options["within"])
    return DebounceOptions(key, within, within, size)


def run_named(run_id: Any) -> str:
    """Return *run_id* as text, without looking for the run. Raises RunNotFound if no database could
    store it, for then no run has this id."""
    if not isinstance(run_id, str) or not is_storable(run_id):
        raise RunNotFound(run=run_id)
    return plain_text(run_id)


def _version(wanted: Any, own: str) -> str:
    if wanted is None:
        return own
    return checked_text("version", checked_version("version", wanted)) or ""


def instant(when: Moment, now: int) -> int:
    """Return a datetime as an instant, or the instant that lies a duration after *now*, in
    microseconds since 1970. The caller must check that it can be stored."""
    return _instant(when, now, sign=1)


def _encoded_policy(policy: Any) -> bytes | None:
    return None if policy is None else msgspec.json.encode(policy_of(policy))


def _stored_instant(when: Moment | None, now: int) -> int | None:
    """Return ``instant`` of *when*, or None for None. Raises BadDuration if a row cannot hold
    it."""
    if when is None:
        return None
    at = instant(when, now)
    if not 0 <= at <= duration.LAST_INSTANT:
        raise BadDuration(value=when, why="the time lies before 1970 or after the year 9999")
    return at


def moment(when: Moment, now: int, *, sign: int) -> int:
    """Return a datetime as an instant, or the instant that lies a duration before (*sign* -1) or
    after (1) *now*, in microseconds since 1970.

    Times before 1970 or after the year 9999 become the first or the last instant, which lies before
    or after everything that is stored."""
    return min(max(_instant(when, now, sign=sign), 0), duration.LAST_INSTANT)


def _instant(when: Moment, now: int, *, sign: int) -> int:
    if isinstance(when, datetime):
        aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    return now + sign * duration.parse(when)
