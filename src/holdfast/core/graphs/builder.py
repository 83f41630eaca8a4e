"""Graph: the builder with which users describe members and their dependencies. Pure.

Nothing is stored while a graph is built; ``compile.GraphCompiler`` turns it into rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.core.graphs.model import MARK, NewGroup
from holdfast.core.graphs.validation import checked_name, group_from
from holdfast.core.text import is_storable, plain_text
from holdfast.errors import (
    BadGraph,
    MemberElsewhere,
    MemberExists,
    MemberNotFound,
    MemberStarted,
    SelfEdge,
    UnknownWorkflow,
)
from holdfast.errors.base import safe_repr

PLACE = "$holdfast.result"
"""The key of the placeholder, in a stored input, for the result of a member."""

PLACES = "$holdfast.results"
"""The key of the placeholder, in a stored input, for the results of several members by name."""

OPTIONS = (
    "lane",
    "priority",
    "delay",
    "deadline",
    "tags",
    "capabilities",
    "namespace",
    "version",
    "policy",
    "budget",
    "share",
)
"""The options of a member's run: the options of a start except id and key, which the graph sets."""


class Result:
    """A placeholder for a member's result in the arguments of another member."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<result of {self.name}>"


class Member:
    """A member of a graph that is being built. ``workflow`` is None for a member that the stored
    graph already has, and for a run that joins the graph."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        workflow: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        self.graph: Graph = graph
        self.name: str = name
        self.workflow: Any = workflow
        self.args: tuple[Any, ...] = args
        self.kwargs: dict[str, Any] = kwargs
        self.options: dict[str, Any] = dict(options)
        self.groups: list[NewGroup] = []
        self.joins: str | None = None
        """The id of the existing run that becomes this member."""

    @property
    def result(self) -> Result:
        """A placeholder to pass as an argument to another member, which then receives the result of
        this member, or None if this member does not complete."""
        return Result(self.name)

    def after(
        self,
        *others: Member | str,
        need: str | int = "all",
        rest: str = "run",
        into: str | None = None,
    ) -> Member:
        """Let this member wait for *others*, and return it. A second call adds a second group: the
        member waits for both.

        Args:
            need: how many of them must complete: "all", "any", or a number.
            rest: what happens to the others when that is decided: "run" on, or "cancel".
            into: the name of an argument that receives their results, as a mapping by name.

        Raises BadGraph, SelfEdge, EdgeExists, MemberElsewhere, MemberNotFound, MemberStarted.
        """
        if self.joins is not None:
            raise MemberStarted(member=self.name, run=self.joins, why="it is a run that exists")
        names = [self.graph._name(other) for other in others]
        if self.name in names:
            raise SelfEdge(member=self.name)
        group = group_from(names, need, rest)
        if into is not None:
            if not isinstance(into, str) or not into.isidentifier():
                raise BadGraph(
                    member=self.name, into=into, why="it must be the name of an argument"
                )
            if into in self.kwargs or self.workflow is None:
                raise BadGraph(
                    member=self.name,
                    into=into,
                    why="the argument has a value already, or the member is not new",
                )
            self.kwargs[into] = {PLACES: list(group.upstreams)}
        self.groups.append(group)
        return self

    def needs(self, takes: Sequence[str] | None = None) -> list[NewGroup]:
        """Return all groups of the member: the groups of ``after``, and one group of the members
        whose results it takes and that are in no other group. A caller that knows what the member
        *takes* passes it, which saves another search through the arguments."""
        waited = {name for group in self.groups for name in group.upstreams}
        if takes is None:
            takes = list(dict.fromkeys(self.takes()))
        taken = [name for name in takes if name not in waited]
        if not taken:
            return list(self.groups)
        # Saves the validation of names that ``Graph.add`` has validated.
        if all(name in self.graph.members for name in taken):
            return [*self.groups, NewGroup(tuple(taken), len(taken))]
        return [*self.groups, group_from(taken)]

    def takes(self) -> list[str]:
        """Return the names of the members whose results are among the arguments, with
        repetitions."""
        return list(_names_of_places([*self.args, *self.kwargs.values()]))

    def __repr__(self) -> str:
        return f"<member {self.name}>"


class Graph:
    """A graph of runs that depend on each other, while it is built.

    ``charge = graph.add(charge_card, 7)``, ``graph.add(ship, charge.result).after(pack)``.
    """

    def __init__(self, name: str = "graph") -> None:
        if (
            not isinstance(name, str)
            or not name
            or "\n" in name
            or len(name) > 200
            or not is_storable(name)
        ):
            raise BadGraph(
                name=name, why="the name of a graph must be one line of 1 to 200 characters"
            )
        self.name: str = name
        self.members: dict[str, Member] = {}
        """The new members, by name."""
        self.existing: dict[str, Member] = {}
        """The members of the stored graph that are referred to, by name."""

    def add(self, workflow: Any, *args: Any, name: str | None = None, **kwargs: Any) -> Member:
        """Add a run of a workflow or task and return its member. Without a *name* it is named after
        its workflow, with a number if that name is taken.

        Options: lane, priority, delay and deadline (from when it is started), tags, capabilities,
        namespace, version, budget, share, policy. All other arguments go to the workflow. Raises
        UnknownWorkflow, BadGraph, MemberExists, MemberElsewhere.
        """
        if not isinstance(workflow, str) and not hasattr(workflow, "program"):
            raise UnknownWorkflow(
                workflow=getattr(workflow, "__name__", safe_repr(workflow)),
                why="it must be a @workflow, a @task, or the name of one",
            )
        workflow_name = workflow if isinstance(workflow, str) else workflow.name
        member_name = checked_name(workflow_name if name is None else name)
        if member_name in self.members:
            if name is not None:
                raise MemberExists(member=member_name)
            member_name = self._numbered(member_name)
        options = {option: kwargs.pop(option) for option in OPTIONS if option in kwargs}
        member = Member(self, member_name, workflow, args, kwargs, options)
        self.members[member_name] = member
        return member

    def join(self, run: Any, *, name: str | None = None) -> Member:
        """Let a *run* that exists, or its id, become a member, and return the member. It keeps its
        id; without a *name* it is named after it. Others may wait for it and take its result. It
        cannot wait for others itself.

        Raises BadGraph, MemberExists, MemberElsewhere.
        """
        run_id = getattr(run, "id", run)
        if not isinstance(run_id, str) or not run_id or not is_storable(run_id):
            raise BadGraph(run=safe_repr(run), why="it must be a run, or the id of one")
        member_name = plain_text(checked_name(run_id if name is None else name))
        if member_name in self.members:
            raise MemberExists(member=member_name)
        member = Member(self, member_name, None, (), {}, {})
        member.joins = plain_text(run_id)
        self.members[member_name] = member
        return member

    def _numbered(self, name: str) -> str:
        """Return the first of ``name-2``, ``name-3``, ... that is free."""
        candidates = (f"{name}-{number}" for number in range(2, len(self.members) + 3))
        return next(candidate for candidate in candidates if candidate not in self.members)

    def member(self, name: str) -> Member:
        """Return a member that the stored graph has, when the graph is extended: new members may
        wait for it and, if it still waits, it may wait for them."""
        member = self.members.get(checked_name(name)) or self.existing.get(name)
        if member is None:
            member = Member(self, name, None, (), {}, {})
            self.existing[name] = member
        return member

    def _name(self, other: Member | str) -> str:
        """Return the name of a member of this graph."""
        if isinstance(other, Member):
            if other.graph is not self:
                raise MemberElsewhere(
                    member=other.name,
                    why="it belongs to another graph, and a run never changes its graph",
                )
            return other.name
        if isinstance(other, str):
            return checked_name(other)
        raise MemberNotFound(
            member=safe_repr(other),
            why=f"give a member or its name, not a run: the name of a member has no {MARK}",
        )


def with_places(value: Any) -> Any:
    """Return arguments as they are stored: with a placeholder for each Result."""
    if isinstance(value, Result):
        return {PLACE: value.name}
    if isinstance(value, list | tuple):
        return [with_places(item) for item in value]
    if type(value) is dict:
        return {key: with_places(item) for key, item in value.items()}
    return value


def fill_places(value: Any, results: Mapping[str, Any]) -> Any:
    """Return stored arguments with results instead of placeholders. A member that did not complete
    has no result: its placeholder becomes None, and a mapping of results leaves it out."""
    if isinstance(value, list):
        return [fill_places(item, results) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {PLACE}:
        return results.get(value[PLACE])
    if value.keys() == {PLACES}:
        return {name: results[name] for name in value[PLACES] if name in results}
    return {key: fill_places(item, results) for key, item in value.items()}


def _names_of_places(value: Any) -> Iterator[str]:
    """Yield the names of the members whose results a value refers to."""
    if isinstance(value, Result):
        yield value.name
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _names_of_places(item)
    elif type(value) is dict:
        if value.keys() == {PLACES}:
            yield from value[PLACES]
        for item in value.values():
            yield from _names_of_places(item)
