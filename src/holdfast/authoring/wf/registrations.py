"""What the host provides to text workflows: executors, item providers, gate resolvers,
environments and schemas, and the values that these functions get and return.

A library has registrations of its own. ``GLOBAL`` holds the registrations for all libraries; those
of a library take precedence.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast.authoring.wf.schemas import OutputSchema, read_schema
from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.errors.wf_runs import BadRegistration

RESOLVER_INTERVAL = 30_000_000
"""Microseconds between two questions to a resolver, unless its registration says otherwise."""


class ExecutorCall(msgspec.Struct):
    """One attempt at a call, as its executor sees it."""

    name: str
    """The target, as written in the text."""
    step: str
    """The key of the step."""
    workflow: str
    run: str
    iteration: list[int]
    attempt: int
    retries_left: int
    last_error: str | None
    inputs: Mapping[str, str]
    """All variables."""
    schema: str | None
    snippets: list[str]
    """The names of the snippets: outer ones first, own ones last."""
    identity: str | None
    plugin_dirs: list[str]
    max_turns: int | None
    dry_run: bool
    gate_feedback: str | None
    cwd: str
    idempotency_key: str


class FanoutItem(msgspec.Struct, frozen=True):
    """An item of a foreach. ``after`` are the ids of the items that come before it."""

    id: str
    ref: str = ""
    context: Mapping[str, str] = {}
    after: Sequence[str] = ()


class Ask(msgspec.Struct, frozen=True):
    """The question to an item provider; the placeholders of scope and filter are replaced."""

    scope: Mapping[str, str]
    filter: Mapping[str, str]
    run: str
    workflow: str = ""
    cwd: str = "."
    query: Any = None
    """Returns runs of the engine: a filter and a limit to facts about each run."""


class GateAsk(msgspec.Struct, frozen=True):
    """The question to a gate resolver."""

    gate: str
    """The type of the gate."""
    prompt: str
    options: list[str]
    min_approvals: int
    mode: str
    identity: str | None
    run: str
    id: str = ""
    """The id of the gate."""
    inputs: Mapping[str, str] = {}
    """The inputs and variables of the run."""


class EnvironmentAsk(msgspec.Struct, frozen=True):
    """The question to a provider of environment variables."""

    identity: str | None
    run: str


class GateVote(msgspec.Struct, frozen=True):
    """The answer of a resolver that has decided."""

    approves: bool
    feedback: str | None = None


def approved(feedback: str | None = None) -> GateVote:
    """Return the answer of a resolver that approves its gate."""
    return GateVote(True, feedback)


def rejected(reason: str) -> GateVote:
    """Return the answer of a resolver that rejects its gate."""
    return GateVote(False, reason)


class Executor(NamedTuple):
    """A registered executor."""

    run: Any
    """A function of a ``wf.Call``; or a definition (a task), which is started as a child run."""
    is_async: bool
    is_definition: bool = False


class ItemProvider(NamedTuple):
    """A registered provider of items."""

    run: Callable[[Ask], Any]
    ordered: bool
    needs_filter: bool
    check: Callable[[Mapping[str, str], Mapping[str, str]], Iterable[str]] | None


class GateResolver(NamedTuple):
    """A registered resolver of gates of one type."""

    run: Callable[[GateAsk], Any]
    every: int
    """Microseconds between two questions."""


class Registrations:
    """Executors, providers, resolvers, environments and schemas by name."""

    def __init__(self) -> None:
        self.executors: dict[str, Executor] = {}
        self.fallback: Executor | None = None
        self.providers: dict[str, ItemProvider] = {}
        self.resolvers: dict[str, GateResolver] = {}
        self.environments: list[Callable[[EnvironmentAsk], Any]] = []
        self.schemas: dict[str, OutputSchema] = {}
        self.targets: set[str] = set()
        """The targets that texts may name; empty if every word is allowed."""
        self.owner: Any = None
        """The library of these registrations; None for those of all libraries."""

    def executor(self, name: str | None = None) -> Callable[[Any], Any]:
        """Register the executor of ``call name``; without a name, the fallback for all calls that
        have none. Raises BadRegistration for a second fallback."""
        if name is not None and not isinstance(name, str):
            raise BadRegistration(executor=name, why='name the call: @library.executor("review")')

        def register(run: Any) -> Any:
            is_definition = hasattr(run, "accepts_versions")
            if not callable(run) and not is_definition:
                raise BadRegistration(executor=name, why="an executor is a function or a task")
            is_async = inspect.iscoroutinefunction(run) or inspect.iscoroutinefunction(
                type(run).__call__
            )
            entry = Executor(run, is_async and not is_definition, is_definition)
            if getattr(run, "library", "") is None:
                run.library = self.owner  # an agent finds its files in the folders of its library
            if name is not None:
                self.executors[name] = entry
            elif self.fallback is not None and self.fallback.run is not run:
                raise BadRegistration(executor=None, why="there is a fallback executor already")
            else:
                self.fallback = entry
            return run

        return register

    def provider(
        self,
        name: str,
        *,
        ordered: bool = False,
        needs_filter: bool = False,
        check: Callable[[Mapping[str, str], Mapping[str, str]], Iterable[str]] | None = None,
    ) -> Callable[[Any], Any]:
        """Register the provider of ``foreach ... over = name``. *check* returns the faults of a
        scope and a filter as messages."""
        _check_name("provider", name)

        def register(run: Any) -> Any:
            _check_function("provider", name, run)
            self.providers[name] = ItemProvider(run, ordered, needs_filter, check)
            return run

        return register

    def resolver(self, name: str, *, every: Duration = "30s") -> Callable[[Any], Any]:
        """Register the resolver of gates of type *name*; it is asked *every* so often."""
        _check_name("resolver", name)
        interval = duration.parse(every)
        if interval <= 0:
            raise BadRegistration(resolver=name, every=every, why="the interval must be positive")

        def register(run: Any) -> Any:
            _check_function("resolver", name, run)
            self.resolvers[name] = GateResolver(run, interval)
            return run

        return register

    def environment(self, run: Any) -> Any:
        """Register a function that returns environment variables for scripts."""
        _check_function("environment", getattr(run, "__name__", ""), run)
        self.environments.append(run)
        return run

    def allow_targets(self, *names: str) -> None:
        """Let ``meta { targets }`` name these targets, and no others. Raises BadRegistration."""
        for name in names:
            _check_name("target", name)
        self.targets.update(names)

    def schema(self, name: str, data: Any) -> None:
        """Register the schema of structured outputs with this name. Raises BadRegistration."""
        _check_name("schema", name)
        self.schemas[name] = read_schema(name, data)


def _check_name(option: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise BadRegistration(**{option: name}, why="the name must be a text")


def _check_function(option: str, name: str, run: Any) -> None:
    if not callable(run):
        raise BadRegistration(**{option: name}, why="register a function")


GLOBAL = Registrations()
"""The registrations for all libraries."""
