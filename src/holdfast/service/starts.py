"""Requests that start a run, many runs, or a debounced run.

A debounced run takes in the further starts of its key until it begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.core import associated_data, duration
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.definitions import StoredDefinition, frozen_definition
from holdfast.core.payload import Fetch, Payload
from holdfast.core.program import is_definition
from holdfast.core.runs import NewRun, Route
from holdfast.core.signature import encode_arguments
from holdfast.core.tasks.policy import policy_of
from holdfast.core.trace_context import tags_of_start
from holdfast.core.validation import (
    checked_capabilities,
    checked_many,
    checked_run_id,
    checked_tags,
    checked_text,
    checked_version,
    priority_of,
)
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import BadOption, UnknownWorkflow
from holdfast.errors.base import safe_repr
from holdfast.service.instants import stored_instant
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.service.variables import check_start_variables
from holdfast.store.database import Started
from holdfast.store.runs.operations import DebounceStart, StartRuns

PART = 2000
"""Runs that one transaction starts, at most: all other writers wait meanwhile."""

DEBOUNCE_OPTIONS = ("debounce", "max_wait", "batch", "within")

Lease = Callable[[Route], str | None]
"""Returns the session to which a new run is leased at its start; None to queue it."""

StartOptions = Mapping[str, Any]

StartRequest = tuple[list[NewRun], Request[list[Started]]]


class ResolvedName(str):
    """The name of a workflow of which no definition is deployed: it is not looked up again."""

    __slots__ = ()


class DeployedName(ResolvedName):
    """The name of a deployed definition whose runs name its version, and that version: it is read
    once per start."""

    __slots__ = ("version",)

    version: str

    @classmethod
    def of(cls, name: str, version: str) -> DeployedName:
        deployed = cls(name)
        deployed.version = version
        return deployed


class StartService:
    """Builds the operations that start runs."""

    def __init__(self, client: RunService) -> None:
        self._client: RunService = client

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
        runs = [self.new_run(workflow, args, kwargs, options, lease)]
        return runs, Request(StartRuns(runs), identity)

    def _debounce(
        self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any], options: StartOptions
    ) -> StartRequest:
        """Start a debounced run: it takes in the further starts of its key until it begins."""
        debounce = debounce_options(options)
        if debounce.size is not None:
            if len(args) != 1 or kwargs:
                raise BadOption(
                    option="batch",
                    why="a start with batch has one argument, an item: the workflow receives the"
                    " list of items",
                )
            args = ([args[0]],)
        run = self.new_run(workflow, args, kwargs, {**options, "key": None}, queued)
        op = DebounceStart(
            run=run,
            key=debounce.key,
            quiet=debounce.quiet,
            longest=debounce.longest,
            size=debounce.size,
        )
        if debounce.size is not None:
            op.merge = self._merger(run.input)
        return [run], Request(op, identity)

    def _merger(self, new: bytes) -> Callable[[str, bytes, Fetch], tuple[bytes, Sequence[Payload]]]:
        """Return a function that adds the items of the input *new* to a stored input."""
        codec = self._client.codec

        def add(old: bytes) -> bytes:
            arguments = codec.decode(old)
            arguments[0].extend(codec.decode(new)[0])
            return codec.encode(arguments, label="the arguments")

        def merge(run_id: str, old: bytes, fetch: Fetch) -> tuple[bytes, Sequence[Payload]]:
            place = associated_data.run_input(run_id)
            return self._client.sealer.reseal_input(old, add, fetch, run_id, place=place)

        return merge

    def start_many(
        self,
        workflow: Any,
        items: Iterable[Any],
        options: StartOptions,
        lease: Lease,
        id_of: Callable[[int], str] | None = None,
    ) -> list[StartRequest]:
        """Start one run per item, in parts of at most PART runs. Each part is started as a whole or
        not at all. The answers are the ids of the runs; *id_of* gives the id of each item by its
        number. Raises BadOption."""
        if any(options.get(name) is not None for name in ("id", "key", *DEBOUNCE_OPTIONS)):
            raise BadOption(
                option="id", why="many runs cannot share an id or a key: start them one by one"
            )
        if isinstance(items, str | bytes):
            raise BadOption(
                option="items",
                value=items,
                why="a text would start a run for each of its characters: pass a list",
            )
        workflow = self.resolved(workflow, options)
        definition = self._client.definition_of(workflow)
        runs: list[NewRun] = []
        for number, item in enumerate(checked_many("items", items)):
            run_id = new_id() if id_of is None else id_of(number)
            if runs:
                data = self._encode(workflow, definition, (item,), {})
                runs.append(_like(runs[0], data, options, run_id))
            else:
                first = {**options, "id": run_id}
                runs.append(self.new_run(workflow, (item,), {}, first, lease))
        parts = [runs[first : first + PART] for first in range(0, len(runs), PART)]
        return [(part, Request(StartRuns(part), identity)) for part in parts]

    def new_run(
        self,
        workflow: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: StartOptions,
        lease: Lease | None = None,
    ) -> NewRun:
        """Return a run with these arguments and options, which no operation creates yet. Raises
        BadOption, BadDuration, UnknownWorkflow."""
        workflow = self.resolved(workflow, options)
        route = self.route(workflow, options)
        data = self.encode_input(workflow, args, kwargs)
        now = self._client.store.now()
        delay = options.get("delay")
        run_id = checked_run_id(options.get("id")) or new_id()
        budget = _with_own_budget(self._client.definition_of(workflow), options.get("budget"))
        budgets, limits = budget_rules.budgets_of_start(budget, run_id)
        return NewRun(
            id=run_id,
            route=route,
            input=data,
            priority=priority_of(options.get("priority", 0)),
            key=checked_text("key", options.get("key")),
            tags=tags_of_start(checked_tags(options.get("tags"))),
            available_at=stored_instant(delay, now),
            deadline=stored_instant(options.get("deadline"), now),
            session_id=None if delay is not None or lease is None else lease(route),
            policy=_encode_policy(options.get("policy")),
            budgets=budgets,
            limits=limits,
            share=checked_text("share", options.get("share")),
            same=self._client.sealer.has_same_input,
            definition=self._unstored(workflow, route.namespace),
        )

    def resolved(self, workflow: Any, options: Mapping[str, Any]) -> Any:
        """Return a workflow as a start uses it: in place of the name of a deployed text, that text,
        also if this process has a file of that name; other names of deployed definitions with the
        version that new runs use. Raises NamespaceBound, ModelNotFound."""
        if not isinstance(workflow, str) or isinstance(workflow, ResolvedName):
            return workflow
        if not self._client.may_be_deployed(workflow):
            return workflow
        name = _checked_workflow_name(workflow)
        version = options.get("version")
        wanted = None if version is None else checked_version("version", version)
        stored = self._client.deployed(self._namespace(options), name, wanted)
        if stored is None:
            self._client.refuse_deployed(self._namespace(options), name, wanted)
            return ResolvedName(name)
        definition = self._client.stored_definitions.startable(stored)
        return DeployedName.of(name, stored.version) if definition is None else definition

    def kept_definition(self, workflow: Any, options: Mapping[str, Any]) -> StoredDefinition | None:
        """Return the definition that later runs of a workflow keep, unless it is known to be
        stored. Raises NamespaceBound."""
        return self._unstored(self.resolved(workflow, options), self._namespace(options))

    def _namespace(self, options: Mapping[str, Any]) -> str:
        """Return the namespace of a start. Raises NamespaceBound, BadOption."""
        namespace = self._client.within(checked_text("namespace", options.get("namespace")))
        return namespace or self._client.namespace

    def _unstored(self, workflow: Any, namespace: str) -> StoredDefinition | None:
        """Return the definition that a new run keeps, unless it is known to be stored."""
        frozen = frozen_definition(self._client.definition_of(workflow), namespace)
        if frozen is None or self._client.stored_definitions.kept.has(frozen):
            return None
        return frozen

    def route(self, workflow: Any, options: Mapping[str, Any]) -> Route:
        """Return the route of a run of a resolved workflow: what a worker must offer to serve it.
        Raises BadOption, UnknownWorkflow, NamespaceBound."""
        definition = self._client.definition_of(workflow)
        namespace = self._namespace(options)
        if definition is None:
            name = _checked_workflow_name(workflow)
            version = workflow.version if isinstance(workflow, DeployedName) else "1"
            lane = "default"
            capabilities: tuple[str, ...] = ()
        elif is_definition(definition):
            name = definition.name
            version = definition.version
            lane = definition.lane
            capabilities = tuple(definition.capabilities)
        else:
            raise UnknownWorkflow(
                workflow=getattr(definition, "__name__", safe_repr(definition)),
                why="this is not a workflow: decorate the function with @workflow",
            )
        if getattr(definition, "frozen", None) is None:
            version = _version(options.get("version"), version)
        return Route(
            namespace,
            name,
            version,
            checked_text("lane", options.get("lane")) or lane,
            _capabilities(options.get("capabilities"), capabilities),
        )

    def encode_input(self, workflow: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bytes:
        """Return the encoded arguments of a run, checked against the signature of the workflow if
        it is known here."""
        return self._encode(workflow, self._client.definition_of(workflow), args, kwargs)

    def _encode(
        self, workflow: Any, definition: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> bytes:
        codec = self._client.codec
        if isinstance(workflow, DeployedName):
            check_start_variables(args)
        signature = getattr(definition, "signature", None)
        if signature is None:
            return encode_arguments(codec, args, kwargs)
        data: bytes = signature.encode_checked(codec, tuple(args), dict(kwargs))
        return data


def _with_own_budget(definition: Any, budget: Any) -> Any:
    """Return the budget of a start; the limits that the definition declares hold unless the start
    has limits of its own."""
    own = getattr(definition, "start_budget", None)
    if own is None or isinstance(budget, Mapping):
        return budget
    if budget is None:
        return own
    shared = [budget] if isinstance(budget, str) else list(budget)
    return shared if any(isinstance(part, Mapping) for part in shared) else [*shared, own]


def queued(route: Route) -> None:
    """Queue a new run instead of leasing it: a ``Lease``."""
    return None


def _like(first: NewRun, data: bytes, options: StartOptions, run_id: str) -> NewRun:
    """Return a new run with the options of *first* and another input: saves checking the options
    for every run."""
    budgets = first.budgets
    limits = None
    if first.limits is not None:  # each run has a budget of its own
        budgets, limits = budget_rules.budgets_of_start(options["budget"], run_id)
    return msgspec.structs.replace(first, id=run_id, input=data, budgets=budgets, limits=limits)


def _checked_workflow_name(workflow: Any) -> str:
    """Return the name of a workflow that this process does not know. Raises UnknownWorkflow,
    BadOption."""
    if workflow is None:
        raise UnknownWorkflow(workflow=None, why="give a workflow or its name")
    name = str(workflow)  # the text alone of a resolved name, which JSON can encode
    if not name.strip() or not checked_text("workflow", name):
        raise BadOption(option="workflow", value=name, why="give the name of a workflow")
    return name


def _version(version: Any, own: str) -> str:
    if version is None:
        return own
    return checked_text("version", checked_version("version", version)) or ""


def _capabilities(capabilities: Any, own: tuple[str, ...]) -> tuple[str, ...]:
    if capabilities is None:
        return own
    return checked_capabilities(capabilities)


def _encode_policy(policy: Any) -> bytes | None:
    if policy is None:
        return None
    return msgspec.json.encode(policy_of(policy))


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
        longest = 10 * quiet
        if options.get("max_wait") is not None:
            longest = duration.parse(options["max_wait"])
        return DebounceOptions(key, quiet, longest, None)
    within = options.get("within")
    is_count = isinstance(size, int) and not isinstance(size, bool) and size >= 1
    if not is_count or within is None:
        raise BadOption(
            option="batch",
            value=size,
            why='give a number of starts, and within="2s" for the time to collect them',
        )
    window = duration.parse(within)
    return DebounceOptions(key, window, window, size)
