"""What can be asked of a store by whoever is no worker: start, signal, cancel, look, repair.

A request is a transition and what its answer means, so that blocking and asynchronous callers share
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from holdfast.core import associated_data, duration
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.codec import Codec
from holdfast.core.duration import Duration
from holdfast.core.events import Event
from holdfast.core.fairness import checked_weights
from holdfast.core.payload import Fetch, Payload
from holdfast.core.rate_limits import parse_rate
from holdfast.core.runs import DEFAULT_NAMESPACE, NewRun, Route, RunRecord
from holdfast.core.sessions import Lane
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
from holdfast.store.contract import Operation, Store
from holdfast.store.contract.payloads import RemoveRetention, SaveRetention
from holdfast.store.contract.reading import RunFilter
from holdfast.store.contract.runs import (
    DebounceStart,
    Prune,
    RequestCancel,
    ResumeRun,
    SetLane,
    SignalRun,
    StartRuns,
)
from holdfast.store.contract.waits import MOST_SIGNALS

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)

PART = 2000
"""How many runs one transaction starts at most: while it writes, nobody else can."""

PAGE = 500
"""How many runs one query reads by their ids."""

Moment = Duration | datetime
Lease = Callable[[Route], str | None]
StartOptions = Mapping[str, Any]


class Request(NamedTuple):
    """A transition, and what to make of its answer."""

    op: Operation
    understand: Callable[[Any], Any]


StartRequest = tuple[list[NewRun], Request]


class RunService:
    """Turns what people ask into transitions, and reads what is stored."""

    def __init__(
        self,
        store: Store,
        codec: Codec,
        definitions: Callable[[], Mapping[str, Any]],
        namespace: str | None = None,
        sealer: PayloadSealer | None = None,
    ) -> None:
        self.store, self.codec, self.definitions = store, codec, definitions
        self.namespace, self.only = namespace or DEFAULT_NAMESPACE, namespace
        """The namespace of what is started here, and the only one that may be touched: None if all
        may be."""
        self.max_signals = MOST_SIGNALS
        self.sealer = sealer or PayloadSealer(store)

    # Starting

    def start(
        self,
        workflow: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: StartOptions,
        lease: Lease,
    ) -> StartRequest:
        """Start one run; the answer is its id."""
        if any(options.get(name) is not None for name in DEBOUNCE_OPTIONS):
            return self._gather(workflow, args, kwargs, options)
        runs = [self._new_run(workflow, args, kwargs, options, lease)]
        return runs, Request(StartRuns(runs), lambda answer: answer)

    def _gather(
        self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any], options: StartOptions
    ) -> StartRequest:
        """Start a run into which further starts of its key go until it begins."""
        how = debounce_options(options)
        if how.size is not None:
            if len(args) != 1 or kwargs:
                raise BadOption(
                    option="batch",
                    why="each start gives one item: the workflow is given the list of them",
                )
            args = ([args[0]],)
        run = self._new_run(workflow, args, kwargs, {**options, "key": None}, lambda route: None)

        def add(old: bytes) -> bytes:
            whole = self.codec.decode(old)
            whole[0].extend(self.codec.decode(run.input)[0])
            return self.codec.encode(whole, what="the arguments")

        def merge(run_id: str, old: bytes, fetch: Fetch) -> tuple[bytes, list[Payload]]:
            return self.sealer.remake(
                old, add, fetch, run_id, place=associated_data.run_input(run_id)
            )

        op = DebounceStart(
            run=run,
            key=how.key,
            quiet=how.quiet,
            longest=how.longest,
            size=how.size,
            merge=None if how.size is None else merge,
        )
        return [run], Request(op, lambda answer: answer)

    def start_many(
        self, workflow: Any, items: Iterable[Any], options: StartOptions, lease: Lease
    ) -> list[StartRequest]:
        """Start one run per item, in parts that are each started as a whole or not at all; the
        answers are their ids."""
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
        return [(part, Request(StartRuns(part), lambda answer: answer)) for part in parts]

    def _like(self, first: NewRun, data: bytes, options: StartOptions) -> NewRun:
        """Return a run that is started as another one is, with other arguments: the options are
        read once for all."""
        run_id = new_id()
        drawn, limits = (
            (first.budgets, None)
            if first.limits is None
            else budget_rules.drawn_on(options["budget"], run_id)
        )
        return msgspec.structs.replace(first, id=run_id, input=data, budgets=drawn, limits=limits)

    def _new_run(
        self,
        workflow: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: StartOptions,
        lease: Lease,
    ) -> NewRun:
        route, data = self.route(workflow, options), self.input_of(workflow, args, kwargs)
        now = self.store.now()
        delay = options.get("delay")
        run_id = checked_run_id(options.get("id")) or new_id()
        drawn, limits = budget_rules.drawn_on(options.get("budget"), run_id)
        return NewRun(
            id=run_id,
            route=route,
            input=data,
            priority=priority_of(options.get("priority", 0)),
            key=checked_text("key", options.get("key")),
            tags=checked_tags(options.get("tags")),
            available_at=None if delay is None else _stored_instant(delay, now),
            deadline=None
            if options.get("deadline") is None
            else _stored_instant(options["deadline"], now),
            session_id=None if delay is not None else lease(route),
            policy=None
            if options.get("policy") is None
            else msgspec.json.encode(policy_of(options["policy"])),
            budgets=drawn,
            limits=limits,
            share=checked_text("share", options.get("share")),
            same=self.sealer.is_same,
        )

    def route(self, workflow: Any, options: Mapping[str, Any]) -> Route:
        """Return what a worker must offer to serve a run of this workflow."""
        if isinstance(workflow, str):
            known = self.definitions().get(workflow)
            name, version, lane, capabilities = workflow, "1", "default", ()
            if known is None and (not name.strip() or not checked_text("workflow", name)):
                raise BadOption(option="workflow", value=name, why="a workflow has a name")
        else:
            known, name, version, lane, capabilities = workflow, "", "", "", ()
            if known is None:
                raise UnknownWorkflow(workflow=None, why="name one")
        if known is not None:
            if not hasattr(known, "program"):
                raise UnknownWorkflow(
                    workflow=getattr(known, "__name__", shown(known)), why="it is no @workflow"
                )
            name, version, lane, capabilities = (
                known.name,
                known.version,
                known.lane,
                known.capabilities,
            )
        wanted = options.get("capabilities")
        return Route(
            self.within(checked_text("namespace", options.get("namespace"))) or self.namespace,
            name,
            _version(options.get("version"), version),
            checked_text("lane", options.get("lane")) or lane,
            tuple(capabilities) if wanted is None else checked_capabilities(wanted),
        )

    def input_of(self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Return arguments as they are stored, checked against the signature if it is known."""
        return self._encoded(self.known(workflow), args, kwargs)

    def known(self, workflow: Any) -> Any:
        """Return the definition of a workflow, if it is known here."""
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

    # Touching a run

    def within(self, namespace: str | None) -> str | None:
        """Return the namespace that is meant, None for all of them. Raises NamespaceBound."""
        if self.only is None:
            return namespace
        if namespace is not None and namespace != self.only:
            raise NamespaceBound(namespace=self.only, asked=namespace)
        return self.only

    def unbound(self, call: str) -> None:
        """Refuse a call that concerns the whole installation, unless all namespaces may be touched.
        Raises NamespaceBound."""
        if self.only is not None:
            raise NamespaceBound(
                namespace=self.only, call=call, why="it concerns the whole installation"
            )

    def is_mine(self, run_id: str) -> bool:
        """Return whether a run may be touched: an engine that is bound to a namespace touches no
        other."""
        if self.only is None:
            return True
        run = self.store.run(run_id)
        return run is not None and run.namespace == self.only

    def mine(self, run_id: Any) -> str:
        """Return the id of a run that may be touched. Raises RunNotFound."""
        return run_named(run_id) if self.only is None else self.get(run_id).id

    def signal(
        self,
        run_id: str,
        name: str,
        payload: Any,
        key: str | None,
        source: str | None = None,
        wait: str | None = None,
    ) -> Request:
        """Send a signal; the answer is Delivery."""
        name = checked_signal(name)
        run_id, data = self.mine(run_id), self.codec.encode(payload, what=f"signal {name!r}")
        key, source = checked_text("key", key), checked_text("source", source)
        return Request(
            SignalRun(run_id, name, data, key, source, wait, self.max_signals),
            lambda answer: answer,
        )

    def cancel(self, run_id: str, reason: str, *, force: bool) -> Request:
        """Ask a run to stop; the answer is its status, or PartlyCancelled: then the same request
        goes on."""
        force = checked_flag("force", force)
        return Request(
            RequestCancel(self.mine(run_id), checked_reason(reason), force), lambda answer: answer
        )

    def resume(self, run_id: str) -> Request:
        """Put a stuck run back to work."""
        return Request(ResumeRun(self.mine(run_id)), Status)

    def replay(self, run_id: str, from_step: str | None) -> list[Request]:
        """Put a finished run and its failed children back to work, in parts; the last answer is the
        status of the run."""
        from_step = checked_string("from_step", from_step)
        run = self.get(self.mine(run_id))
        if run.status not in FINAL:
            raise RunNotFinished(run=run_id, status=run.status.value)
        return [
            Request(part, lambda answer: answer)
            for part in in_parts(plan_replay(self.store, run_id, from_step))
        ]

    # Looking

    def get(self, run_id: str) -> RunRecord:
        """Return a run. Raises RunNotFound."""
        run = self.store.run(run_named(run_id))
        if run is None or (self.only is not None and run.namespace != self.only):
            raise RunNotFound(run=run_id)
        return run

    def get_many(self, run_ids: Sequence[str]) -> dict[str, RunRecord | RunNotFound]:
        """Return runs by their ids; in the place of one that ``get`` would not return there is its
        error."""
        found: dict[str, RunRecord | RunNotFound] = {}
        known = [run_id for run_id in run_ids if isinstance(run_id, str) and is_storable(run_id)]
        for place in range(0, len(known), PAGE):
            page = self.store.runs_by_id(known[place : place + PAGE])
            found.update(
                (run.id, run) for run in page if self.only is None or run.namespace == self.only
            )
        return {run_id: found.get(run_id) or RunNotFound(run=run_id) for run_id in run_ids}

    def record(self, run_id: str) -> RunRecord:
        """Return a run with all of its values that can be read here. Raises RunNotFound."""
        return self.sealer.readable(self.get(run_id), large=True)

    def history(self, run_id: str) -> list[Event]:
        """Return the events of a run, opened. Raises RunNotFound, KeyMissing."""
        return self.sealer.events(run_id, self.store.history(self.get(run_id).id))

    def find(self, **filters: Any) -> list[RunRecord]:
        """Return the runs that match, from new to old; what is kept apart of them is not loaded."""
        return [self.sealer.readable(run) for run in self.store.runs(self._filter(filters))]

    def _filter(self, given: dict[str, Any]) -> RunFilter:
        status = given.pop("status", None)
        statuses = (
            [status]
            if isinstance(status, str)
            else checked_many("status", () if status is None else status)
        )
        unknown = [one for one in statuses if not is_one_of(one, list(Status))]
        if unknown:
            raise BadOption(option="status", value=unknown[0], known=", ".join(Status))
        for name in ("since", "until"):
            if given.get(name) is not None:
                given[name] = moment(given[name], self.store.now(), sign=-1)
        given = {name: value for name, value in given.items() if value is not None}
        for name in {"namespace", "workflow", "worker", "parent_id", "before"} & set(given):
            if not isinstance(given[name], str):
                raise BadOption(option=name, value=given[name], why="it is a text")
            given[name] = plain_text(given[name])
        given["namespace"] = self.within(given.get("namespace"))
        if "limit" in given:
            given["limit"] = checked_count("limit", given["limit"])
        if "roots" in given:
            given["roots"] = checked_flag("roots", given["roots"])
        if "tags" in given:
            given["tags"] = checked_tags(given["tags"])
        try:
            return RunFilter(statuses=statuses, **given)
        except TypeError as error:
            raise BadOption(option="filter", why=str(error)) from None

    def value(self, run: RunRecord) -> Any:
        """Return the result of a finished run, or raise why there is none. Raises KeyMissing when
        it cannot be read here."""
        signature = getattr(self.definitions().get(run.workflow), "signature", None)
        return result_value(run, self.sealer, self.codec, signature)

    # Keeping house

    def prune(
        self,
        older_than: Moment,
        statuses: Sequence[str],
        *,
        batch: int,
        after: str,
        workflow: str | None = None,
    ) -> Request:
        """Delete a batch of old finished runs; the answer is Pruned."""
        final, most = checked_statuses(statuses), checked_count("batch", batch, least=1)
        before = moment(older_than, self.store.now(), sign=-1)
        named = checked_string("workflow", workflow)
        op = Prune(
            before,
            final or sorted(FINAL),
            limit=most,
            namespace=self.only,
            after=after,
            workflow=named,
        )
        return Request(op, lambda answer: answer)

    def retention(self, name: str, **options: Any) -> Request:
        """Make a retention rule, or another one of it."""
        self.unbound("retention")
        known = {route.workflow for route in self.store.routes().values()} | set(self.definitions())
        return Request(
            SaveRetention(checked_rule(name, known=known, **options)), lambda answer: None
        )

    def remove_retention(self, name: str) -> Request:
        """Remove a retention rule."""
        self.unbound("remove_retention")
        return Request(RemoveRetention(checked_string("name", name)), lambda answer: None)

    def lane(
        self,
        name: str,
        concurrency: int | None,
        rate: str | None,
        *,
        paused: bool,
        per_share: int | None = None,
        rate_per_share: str | None = None,
        weights: Mapping[str, Any] | None = None,
        draining: bool = False,
    ) -> Request:
        """Set the limits of a lane."""
        self.unbound("lane")
        if checked_text("lane", name) is None:
            raise BadOption(option="lane", value=name, why="a lane has a name")
        paused, draining = checked_flag("paused", paused), checked_flag("draining", draining)
        if per_share is not None and (
            not isinstance(per_share, int) or isinstance(per_share, bool) or per_share < 0
        ):
            raise BadOption(option="per_share", value=per_share, why="it is a number of runs")
        each = None if rate_per_share is None else parse_rate(rate_per_share, "rate_per_share")
        if concurrency is not None and (
            not isinstance(concurrency, int) or isinstance(concurrency, bool) or concurrency < 0
        ):
            raise BadOption(option="concurrency", value=concurrency, why="it is a number of runs")
        limits = None if rate is None else parse_rate(rate)
        lane = Lane(
            name=name,
            concurrency=concurrency,
            rate_limit=limits.limit if limits else None,
            rate_per=limits.per if limits else None,
            paused=paused,
            per_share=per_share,
            share_rate_limit=each.limit if each else None,
            share_rate_per=each.per if each else None,
            weights=checked_weights(weights),
            draining=draining,
        )
        return Request(SetLane(lane), lambda answer: None)


DEBOUNCE_OPTIONS = ("debounce", "max_wait", "batch", "within")


class DebounceOptions(NamedTuple):
    """How starts of a key are gathered: for how long, and how many at most."""

    key: str
    quiet: int
    longest: int
    size: int | None


def refuse_debounce(options: StartOptions) -> None:
    """Starts in a transaction of the caller's own cannot be gathered. Raises BadOption."""
    for name in DEBOUNCE_OPTIONS:
        if options.get(name) is not None:
            raise BadOption(
                option=name, why="starts within your own transaction cannot be gathered"
            )


def debounce_options(options: StartOptions) -> DebounceOptions:
    """Read the options by which starts are gathered. Raises BadOption."""
    key, debounce, size = (
        checked_text("key", options.get("key")),
        options.get("debounce"),
        options.get("batch"),
    )
    if key is None:
        raise BadOption(option="key", why="starts are gathered by their key")
    if (debounce is None) == (size is None):
        raise BadOption(option="debounce", why="say debounce (with max_wait), or batch with within")
    if options.get("id") is not None or options.get("delay") is not None:
        raise BadOption(
            option="delay", why="when a run that gathers starts begins is not said by id or delay"
        )
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
            why='it is a number of starts, with within="2s" for how long they are gathered',
        )
    within = duration.parse(options["within"])
    return DebounceOptions(key, within, within, size)


def run_named(run_id: Any) -> str:
    """Return the id of a run, which may not be there; what no database could store names none.
    Raises RunNotFound."""
    if not isinstance(run_id, str) or not is_storable(run_id):
        raise RunNotFound(run=run_id)
    return plain_text(run_id)


def _version(wanted: Any, own: str) -> str:
    return (
        own if wanted is None else checked_text("version", checked_version("version", wanted)) or ""
    )


def instant(when: Moment, now: int) -> int:
    """Return the instant that lies *when* after now, or that *when* is. The caller sees to it that
    it can be stored."""
    return _instant(when, now, sign=1)


def _stored_instant(when: Moment, now: int) -> int:
    """Return the instant that *when* means. Raises BadDuration for one that a row cannot hold."""
    found = instant(when, now)
    if not 0 <= found <= duration.LAST_INSTANT:
        raise BadDuration(value=when, why="it lies before 1970 or after the year 9999")
    return found


def moment(when: Moment, now: int, *, sign: int) -> int:
    """Return a datetime as an instant, or the instant that lies a duration before or after now.
    What lies before 1970 or after the year 9999 lies before, or after, whatever is stored."""
    return min(max(_instant(when, now, sign=sign), 0), duration.LAST_INSTANT)


def _instant(when: Moment, now: int, *, sign: int) -> int:
    if isinstance(when, datetime):
        aware = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
        return (aware - _EPOCH) // _MICROSECOND
    return now + sign * duration.parse(when)
