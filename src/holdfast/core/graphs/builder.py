"""Drawing up a graph: what users write, before anything is stored. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.core.graphs.model import MARK, NewGroup
from holdfast.core.graphs.validation import checked_name, group_from
from holdfast.core.text import is_storable
from holdfast.errors import (
    BadGraph,
    MemberElsewhere,
    MemberExists,
    MemberNotFound,
    SelfEdge,
    UnknownWorkflow,
)
from holdfast.errors.base import shown

PLACE, PLACES = "$holdfast.result", "$holdfast.results"
"""What stands in a stored input for the result of a member, and for those of several."""

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
"""The options of a member's run: those of a start, but its id and key, which the graph gives."""


class Result:
    """The place of a member's result in the arguments of another member."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<result of {self.name}>"


class Member:
    """A member of a graph that is being drawn up."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        workflow: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: Mapping[str, Any],
    ) -> None:
        self.graph, self.name, self.workflow = graph, name, workflow
        self.args, self.kwargs, self.options = args, kwargs, dict(options)
        self.groups: list[NewGroup] = []

    @property
    def result(self) -> Result:
        """Give this as an argument to another member: it is given the result, or None when this one
        did not complete."""
        return Result(self.name)

    def after(
        self,
        *others: Member | str,
        need: str | int = "all",
        rest: str = "run",
        into: str | None = None,
    ) -> Member:
        """Wait for others: "all" of them, "any" of them, or so many. When that is decided the
        *rest* of them may "run" on, or is told to stop ("cancel"). *into* names an argument that is
        given their results, by their names. Called again, it waits for both."""
        names = [self.graph._name(other) for other in others]
        if self.name in names:
            raise SelfEdge(member=self.name)
        group = group_from(names, need, rest)
        if into is not None:
            if not isinstance(into, str) or not into.isidentifier():
                raise BadGraph(member=self.name, into=into, why="it is the name of an argument")
            if into in self.kwargs or self.workflow is None:
                raise BadGraph(
                    member=self.name,
                    into=into,
                    why="that argument is given already, or the member is not new",
                )
            self.kwargs[into] = {PLACES: list(group.upstreams)}
        self.groups.append(group)
        return self

    def needs(self, takes: Sequence[str] | None = None) -> list[NewGroup]:
        """Return all groups: those that were asked for, and one of the members whose results are
        taken and that are in none. What it *takes* need not be sought again by who knows it."""
        waited = {name for group in self.groups for name in group.upstreams} if self.groups else ()
        taken = [
            name
            for name in (dict.fromkeys(self.takes()) if takes is None else takes)
            if name not in waited
        ]
        if not taken:
            return list(self.groups)
        checked = all(name in self.graph.members for name in taken)
        return [*self.groups, NewGroup(tuple(taken), len(taken)) if checked else group_from(taken)]

    def takes(self) -> list[str]:
        """Return the members whose results are among the arguments."""
        return list(_taken([*self.args, *self.kwargs.values()]))

    def __repr__(self) -> str:
        return f"<member {self.name}>"


class Graph:
    """Runs that depend on each other. ``charge = graph.add(charge_card, 7)``, ``graph.add(ship,
    charge.result).after(pack)``."""

    def __init__(self, name: str = "graph") -> None:
        if (
            not isinstance(name, str)
            or not name
            or "\n" in name
            or len(name) > 200
            or not is_storable(name)
        ):
            raise BadGraph(name=name, why="a graph has a name of one line, 1 to 200 characters")
        self.name = name
        self.members: dict[str, Member] = {}
        self.there: dict[str, Member] = {}

    def add(self, workflow: Any, *args: Any, name: str | None = None, **kwargs: Any) -> Member:
        """Add a run of a workflow or task. It is named after its workflow unless a name is given.
        Options: lane, priority, delay and deadline (from when it is started), tags, capabilities,
        version, budget, share, policy. All else is the workflow's."""
        if not isinstance(workflow, str) and not hasattr(workflow, "program"):
            raise UnknownWorkflow(
                workflow=getattr(workflow, "__name__", shown(workflow)),
                why="it is no @workflow and no @task",
            )
        own = workflow if isinstance(workflow, str) else workflow.name
        base = checked_name(own if name is None else name)
        if base in self.members:
            if name is not None:
                raise MemberExists(member=base)
            base = next(
                found
                for number in range(2, len(self.members) + 3)
                if (found := f"{base}-{number}") not in self.members
            )
        options = {option: kwargs.pop(option) for option in OPTIONS if option in kwargs}
        member = self.members[base] = Member(self, base, workflow, args, kwargs, options)
        return member

    def member(self, name: str) -> Member:
        """Name a member that the graph has already when it is extended: others may wait for it, or,
        if it waits still, it for others."""
        found = self.members.get(checked_name(name)) or self.there.get(name)
        if found is None:
            found = self.there[name] = Member(self, name, None, (), {}, {})
        return found

    def _name(self, other: Member | str) -> str:
        if isinstance(other, Member):
            if other.graph is not self:
                raise MemberElsewhere(
                    member=other.name,
                    why="it belongs to another graph: a run is in one graph for good",
                )
            return other.name
        if isinstance(other, str):
            return checked_name(other)
        raise MemberNotFound(
            member=shown(other), why=f"give a member or its name, not a run: {MARK} names no member"
        )


def with_places(value: Any) -> Any:
    """Return arguments as they are stored: with places for results."""
    if isinstance(value, Result):
        return {PLACE: value.name}
    if isinstance(value, list | tuple):
        return [with_places(one) for one in value]
    if type(value) is dict:
        return {key: with_places(one) for key, one in value.items()}
    return value


def filled(value: Any, results: Mapping[str, Any]) -> Any:
    """Put results in their places; who did not complete has none."""
    if isinstance(value, list):
        return [filled(one, results) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {PLACE}:
        return results.get(value[PLACE])
    if value.keys() == {PLACES}:
        return {name: results[name] for name in value[PLACES] if name in results}
    return {key: filled(one, results) for key, one in value.items()}


def _taken(value: Any) -> Iterator[str]:
    if isinstance(value, Result):
        yield value.name
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _taken(one)
    elif type(value) is dict:
        if value.keys() == {PLACES}:
            yield from value[PLACES]
        for one in value.values():
            yield from _taken(one)
