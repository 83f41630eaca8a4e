"""Graphs written as JSON documents, which the command line starts; graphs drawn with Mermaid. Pure.

{"name": "checkout", "members": {
    "charge": {"workflow": "charge_card", "args": [7]}, "ship": {"workflow": "ship", "args":
    [{"$result": "charge"}], "after": [{"of": ["pack", "buy"], "need": "any"}]}}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.graphs.builder import OPTIONS, PLACES, Graph, Member, Result
from holdfast.core.graphs.model import NewGroup
from holdfast.errors import BadGraph

RESULT = "$result"
"""The key of the placeholder, in the arguments of a document, for the result of a member."""


class After(msgspec.Struct, forbid_unknown_fields=True):
    """A group of a member: ``need`` of the members ``of``, as in ``Member.after``."""

    of: list[str]
    need: str | int = "all"
    rest: str = "run"
    into: str | None = None


class DocumentEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A member of a document. With the id of a run, that run joins the graph. Without both it is a
    member that the stored graph has."""

    workflow: str | None = None
    run: str | None = None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    after: list[str | After] = []
    options: dict[str, Any] = {}


class GraphDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A graph as a document: its members by name."""

    members: dict[str, DocumentEntry]
    name: str = "graph"


def read(data: bytes) -> Graph:
    """Return the graph that a document describes. Raises BadGraph, and what ``Graph.add`` and
    ``Member.after`` raise."""
    try:
        document = typed_json.decode(data, GraphDocument)
        graph = Graph(document.name)
        members = [(_member(graph, name, entry), entry) for name, entry in document.members.items()]
    except msgspec.DecodeError as error:
        raise BadGraph(why=str(error)) from None
    except UnicodeDecodeError:
        raise BadGraph(why="the document must be UTF-8") from None
    except RecursionError:
        raise BadGraph(why="the document is nested too deeply to be read") from None
    for member, entry in members:
        names = [item for item in entry.after if isinstance(item, str)]
        groups = [After(names)] if names else []
        groups += [item for item in entry.after if isinstance(item, After)]
        for group in groups:
            member.after(*group.of, need=group.need, rest=group.rest, into=group.into)
    return graph


def document_of(graph: Graph) -> dict[str, Any]:
    """Return the document that describes a graph, for a program that sends it elsewhere. Workflows
    become their names. Raises BadGraph."""
    members = {**graph.existing, **graph.members}
    return {
        "name": graph.name,
        "members": {name: _entry(member) for name, member in members.items()},
    }


def _entry(member: Member) -> dict[str, Any]:
    kwargs = dict(member.kwargs)
    entry: dict[str, Any] = {"after": [_after(group, kwargs) for group in member.groups]}
    if member.joins is not None:
        entry["run"] = member.joins
    elif member.workflow is not None:
        entry["workflow"] = getattr(member.workflow, "name", member.workflow)
        entry["args"] = [_with_names(member, item) for item in member.args]
        entry["kwargs"] = {name: _with_names(member, item) for name, item in kwargs.items()}
        entry["options"] = member.options
    return entry


def _after(group: NewGroup, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a group of a member, and take the argument that receives its results."""
    results = {PLACES: list(group.upstreams)}
    into = next((name for name, value in kwargs.items() if value == results), None)
    if into is not None:
        del kwargs[into]
    return {
        "of": list(group.upstreams),
        "need": group.need,
        "rest": group.rest.value,
        "into": into,
    }


def _with_names(member: Member, value: Any) -> Any:
    """Return arguments with the placeholder of the document instead of each Result. Raises
    BadGraph."""
    if isinstance(value, Result):
        return {RESULT: value.name}
    if isinstance(value, list | tuple):
        return [_with_names(member, item) for item in value]
    if not isinstance(value, Mapping):
        return value
    if value.keys() == {RESULT}:
        why = f"an argument looks like the placeholder {RESULT}"
        raise BadGraph(member=member.name, why=why)
    return {key: _with_names(member, item) for key, item in value.items()}


def _member(graph: Graph, name: str, entry: DocumentEntry) -> Member:
    """Return the member of an entry, without its groups."""
    if entry.run is not None:
        if entry.workflow is not None or entry.args or entry.kwargs or entry.options:
            raise BadGraph(
                member=name,
                run=entry.run,
                why="a run that exists has a workflow, arguments and options already",
            )
        return graph.join(entry.run, name=name)
    if entry.workflow is None:
        if entry.args or entry.kwargs or entry.options:
            raise BadGraph(
                member=name,
                why=(
                    "it names no workflow: a new member needs one, and an existing member takes no"
                    " arguments and options"
                ),
            )
        return graph.member(name)
    unknown = set(entry.options) - set(OPTIONS)
    if unknown:
        raise BadGraph(member=name, option=sorted(unknown)[0], known=", ".join(OPTIONS))
    member = graph.add(entry.workflow, *_with_results(entry.args), name=name)
    # Not passed to ``add``, which takes keyword arguments named like an option for options.
    member.kwargs = _with_results(entry.kwargs)
    member.options = dict(entry.options)
    return member


def _with_results(value: Any) -> Any:
    """Return arguments with a Result instead of each placeholder of the document."""
    if isinstance(value, list):
        return [_with_results(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {RESULT}:
        return Result(str(value[RESULT]))
    return {key: _with_results(item) for key, item in value.items()}


def mermaid(needs: Mapping[str, tuple[str, list[tuple[list[str], int, str]]]]) -> Iterator[str]:
    """Yield the lines of a Mermaid flowchart. *needs* has for each member its state and its groups:
    the upstream members, how many of them it needs, and the policy for the remainder."""
    yield "flowchart TD"
    numbers = {name: f"m{number}" for number, name in enumerate(needs)}
    for name, (state, _) in needs.items():
        yield f'    {numbers[name]}["{name}<br/>{state}"]:::{state}'
    for name, (_, groups) in needs.items():
        for upstreams, need, rest in groups:
            label = ""
            if need != len(upstreams):
                suffix = ", cancel rest" if rest == "cancel" else ""
                label = f"|{need} of {len(upstreams)}{suffix}|"
            for upstream in upstreams:
                yield f"    {numbers[upstream]} -->{label} {numbers[name]}"
    for state, colour in COLOURS.items():
        yield f"    classDef {state} fill:{colour}"


COLOURS = {
    "waiting": "#eeeeee",
    "started": "#cfe2ff",
    "completed": "#d1e7dd",
    "failed": "#f8d7da",
    "cancelled": "#e2d9f3",
    "expired": "#ffe5d0",
    "skipped": "#f8f9fa",
}
