"""A graph written as JSON: what the command line starts. Pure.

{"name": "checkout", "members": {
    "charge": {"workflow": "charge_card", "args": [7]}, "ship": {"workflow": "ship", "args":
    [{"$result": "charge"}], "after": [{"of": ["pack", "buy"], "need": "any"}]}}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core.graphs.builder import OPTIONS, Graph, Member, Result
from holdfast.errors import BadGraph

RESULT = "$result"
"""What stands in the arguments for the result of another member."""


class After(msgspec.Struct, forbid_unknown_fields=True):
    """A group: so many of these."""

    of: list[str]
    need: str | int = "all"
    rest: str = "run"
    into: str | None = None


class DocumentEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A member; without a workflow one that the graph has already."""

    workflow: str | None = None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    after: list[str | After] = []
    options: dict[str, Any] = {}


class GraphDocument(msgspec.Struct, forbid_unknown_fields=True):
    """A graph."""

    members: dict[str, DocumentEntry]
    name: str = "graph"


def read(data: bytes) -> Graph:
    """Return the graph that a document draws up. Raises BadGraph."""
    try:
        document = msgspec.json.decode(data, type=GraphDocument)
        graph = Graph(document.name)
        found = [(_member(graph, name, entry), entry) for name, entry in document.members.items()]
    except msgspec.DecodeError as error:
        raise BadGraph(why=str(error)) from None
    except UnicodeDecodeError:
        raise BadGraph(why="it is no Unicode: write it as UTF-8") from None
    except RecursionError:
        raise BadGraph(why="it is nested too deeply to be read") from None
    for member, entry in found:
        plain = [one for one in entry.after if isinstance(one, str)]
        groups = [After(plain)] if plain else []
        for group in [*groups, *(one for one in entry.after if isinstance(one, After))]:
            member.after(*group.of, need=group.need, rest=group.rest, into=group.into)
    return graph


def _member(graph: Graph, name: str, entry: DocumentEntry) -> Member:
    if entry.workflow is None:
        if entry.args or entry.kwargs or entry.options:
            raise BadGraph(
                member=name,
                why=(
                    "it names no workflow: a new member needs one, and one that is there takes"
                    " nothing"
                ),
            )
        return graph.member(name)
    unknown = set(entry.options) - set(OPTIONS)
    if unknown:
        raise BadGraph(member=name, option=sorted(unknown)[0], known=", ".join(OPTIONS))
    args, kwargs = _with_results(entry.args), _with_results(entry.kwargs)
    member = graph.add(entry.workflow, *args, name=name)
    member.kwargs, member.options = kwargs, dict(entry.options)
    return member


def _with_results(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_results(one) for one in value]
    if isinstance(value, dict):
        return (
            Result(str(value[RESULT]))
            if value.keys() == {RESULT}
            else {k: _with_results(one) for k, one in value.items()}
        )
    return value


def mermaid(needs: Mapping[str, tuple[str, list[tuple[list[str], int, str]]]]) -> Iterator[str]:
    """Yield the lines of a Mermaid flowchart. *needs* says of each member how it stands, and of
    each group that it waits for: whom, how many of them, and what becomes of the rest."""
    yield "flowchart TD"
    numbers = {name: f"m{number}" for number, name in enumerate(needs)}
    for name, (state, _) in needs.items():
        yield f'    {numbers[name]}["{name}<br/>{state}"]:::{state}'
    for name, (_, groups) in needs.items():
        for upstreams, need, rest in groups:
            told = (
                ""
                if need == len(upstreams)
                else f"{need} of {len(upstreams)}" + (", cancel rest" if rest == "cancel" else "")
            )
            for upstream in upstreams:
                yield f"    {numbers[upstream]} -->{f'|{told}|' if told else ''} {numbers[name]}"
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
