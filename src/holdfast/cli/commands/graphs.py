"""``holdfast graphs``: runs that depend on each other."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click
import msgspec

from holdfast.cli.commands.why import print_why
from holdfast.cli.context import AFTER_OURS, OpenDatabase, command_context, printing
from holdfast.cli.output import (
    Tree,
    iso,
    print_fields,
    print_json,
    print_table,
    print_tree,
    seconds,
    short,
)
from holdfast.core.graphs.document import mermaid, read
from holdfast.core.graphs.model import CancelPolicy, GraphStatus
from holdfast.errors import GraphNotFound
from holdfast.service.graphs import GraphView, MemberView

EPILOG = """\b
Examples:
  holdfast graphs
  holdfast graphs start checkout.json
  holdfast graphs show last
  holdfast graphs show 01m7ge8gkb --mermaid
  holdfast graphs why 01m7ge8gkb ship
  holdfast graphs cancel 01m7ge8gkb --policy pending"""

SHORTEST = 6
DEEPEST = 24
"""How far a tree is indented at most: lines that begin beyond the edge of the window help
nobody."""


@click.group(
    short_help="List graphs, start them, and work on them.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@click.option(
    "--status",
    type=click.Choice([status.value for status in GraphStatus]),
    help="Only those of this status. E.g. --status running",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="How many. E.g. --limit 10",
)
@printing
@click.pass_context
def graphs(ctx: click.Context, status: str | None, limit: int) -> None:
    """List graphs, the newest first; the commands below work on them. GRAPH is the id of one, the
    first 6 or more characters of it, or "last"."""
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as office:
        found = office.engine.graphs.list(status=status, limit=limit)
    if command_context().as_json:
        print_json([_as_data(graph) for graph in found])
        return
    if not found:
        print("no graphs")
        return
    rows = [
        (
            graph.id,
            graph.status.value,
            seconds(graph.created_at),
            _counts(graph),
            short(graph.name, 40),
        )
        for graph in found
    ]
    print_table(("GRAPH", "STATUS", "CREATED", "MEMBERS", "NAME"), rows)


@graphs.command(epilog="Example: holdfast graphs start checkout.json --id order-7")
@click.argument("file", metavar="FILE", type=click.File("rb"))
@click.option(
    "--id",
    "graph_id",
    metavar="ID",
    help="Start it once: the same graph again is that one. E.g. --id order-7",
)
@printing
def start(file: Any, graph_id: str | None) -> None:
    """Start the graph that a JSON file draws up ("-" for standard input), and print its id. The
    file names members, with the workflow, args, kwargs, options of each, and what it comes
    after."""
    with command_context().opened(create=True) as office:
        made = office.engine.graphs.start(read(file.read()), id=graph_id)
    _tell({"id": made.id, "revision": made.revision}, made.id)


@graphs.command(epilog="Example: holdfast graphs show last --mermaid")
@click.argument("graph", metavar="GRAPH")
@click.option("--mermaid", "as_mermaid", is_flag=True, help="Print it as a Mermaid flowchart.")
@printing
def show(graph: str, as_mermaid: bool) -> None:
    """Show a graph as a tree: who waits for whom, and where each member stands."""
    with command_context().opened() as office:
        found = office.engine.graphs.get(_named(office, graph))
    if as_mermaid:
        print("\n".join(mermaid(_needs(found))))
    elif command_context().as_json:
        print_json(_as_data(found))
    else:
        _print(found)


@graphs.command(epilog="Example: holdfast graphs extend 01m7ge8gkb more.json --revision 3")
@click.argument("graph", metavar="GRAPH")
@click.argument("file", metavar="FILE", type=click.File("rb"))
@click.option(
    "--revision",
    type=int,
    metavar="N",
    help="Only if its structure is still this one. E.g. --revision 3",
)
@printing
def extend(graph: str, file: Any, revision: int | None) -> None:
    """Add members and dependencies from a JSON file to a graph that has not ended. A member without
    a workflow is one that the graph has: others may wait for it, or it for others."""
    with command_context().opened() as office:
        graph_id = _named(office, graph)
        now = office.engine.graphs.extend(graph_id, read(file.read()), revision=revision)
    _tell({"id": graph_id, "revision": now}, f"graph {graph_id} has revision {now}")


@graphs.command(
    epilog="Example: holdfast graphs cancel 01m7ge8gkb --policy pending --reason 'out of stock'"
)
@click.argument("graph", metavar="GRAPH")
@click.option(
    "--policy",
    type=click.Choice([policy.value for policy in CancelPolicy]),
    default="all",
    show_default=True,
    help="What stops: the graph alone, also what has not begun, or all. E.g. --policy pending",
)
@click.option(
    "--reason",
    default="cancelled by request",
    metavar="TEXT",
    help="Why. E.g. --reason 'out of stock'",
)
@printing
def cancel(graph: str, policy: str, reason: str) -> None:
    """Cancel a graph: nothing more is started."""
    with command_context().opened() as office:
        graph_id = _named(office, graph)
        status = office.engine.graphs.cancel(graph_id, policy, reason)
    _tell({"id": graph_id, "status": status.value}, f"graph {graph_id} is {status.value}")


@graphs.command(epilog="Example: holdfast graphs replay 01m7ge8gkb ship")
@click.argument("graph", metavar="GRAPH")
@click.argument("member", metavar="MEMBER")
@printing
def replay(graph: str, member: str) -> None:
    """Let a member that failed, was skipped or has otherwise ended end anew, with those for which
    it was skipped and those that were skipped because of it."""
    with command_context().opened() as office:
        graph_id = _named(office, graph)
        office.engine.graphs.replay(graph_id, member)
        status = office.engine.graphs.status(graph_id)
    _tell({"id": graph_id, "status": status.value}, f"graph {graph_id} is {status.value}")


@graphs.command(epilog="Example: holdfast graphs why 01m7ge8gkb ship")
@click.argument("graph", metavar="GRAPH")
@click.argument("member", metavar="MEMBER")
@printing
def why(graph: str, member: str) -> None:
    """Say what a member waits for: which others are missing, and the command that helps."""
    with command_context().opened() as office:
        print_why(office.engine.graphs.why(_named(office, graph), member), office.store.now())


@graphs.command(epilog="Example: holdfast graphs events last")
@click.argument("graph", metavar="GRAPH")
@printing
def events(graph: str) -> None:
    """Show the audit trail of a graph."""
    with command_context().opened() as office:
        found = office.engine.graphs.events(_named(office, graph), limit=100_000)
    if command_context().as_json:
        print_json([{**event, "at": iso(event["at"])} for event in found])
        return
    rows = [
        (
            str(event["seq"]),
            seconds(event["at"]),
            event["kind"],
            event["member"] or "",
            _json(event["data"]),
        )
        for event in found
    ]
    print_table(("SEQ", "AT", "KIND", "MEMBER", "DATA"), rows)


@graphs.command(epilog="Example: holdfast graphs wait last --timeout 5m")
@click.argument("graph", metavar="GRAPH")
@click.option("--timeout", metavar="TIME", help="How long at most. E.g. --timeout 5m")
@printing
def wait(graph: str, timeout: str | None) -> None:
    """Wait for a graph to end and print the results of its last members. The exit code is 1 when it
    did not complete."""
    with command_context().opened() as office:
        result = office.engine.graphs.result(_named(office, graph), timeout)
    print_json(result) if command_context().as_json else print(_json(result))


@graphs.command(epilog="Example: holdfast graphs prune --older-than 30d")
@click.option(
    "--older-than",
    required=True,
    metavar="TIME",
    help="Ended at least this long ago. E.g. --older-than 30d",
)
@printing
def prune(older_than: str) -> None:
    """Delete graphs that ended long ago; `holdfast prune` deletes them, too, together with their
    runs."""
    with command_context().opened() as office:
        gone = office.engine.graphs.prune(older_than)
    _tell({"graphs": gone}, f"{gone} graphs deleted")


def _named(office: OpenDatabase, name: str) -> str:
    """Return the id of the graph that an id, the beginning of one, or "last" names. Raises
    GraphNotFound."""
    calls = office.engine.graphs
    if name == "last":
        found = [
            *calls.list(before=AFTER_OURS, limit=1),
            *calls.list(limit=100),
        ]  # ids that people chose need not sort by time
        if not found:
            raise click.ClickException("there is no graph yet")
        return max(found, key=lambda graph: (graph.created_at, graph.id)).id
    with suppress(GraphNotFound):
        calls.status(name)
        return name
    near = [
        graph.id
        for graph in calls.list(before=name + "\U0010ffff", limit=2)
        if graph.id.startswith(name)
    ]
    if len(name) < SHORTEST or not near:
        raise GraphNotFound(graph=name)
    if len(near) > 1:
        raise click.ClickException(
            f"several graphs begin with {name}, such as {near[0]} and {near[1]}: say more of it"
        )
    return near[0]


def _tell(data: dict[str, Any], line: str) -> None:
    print_json(data) if command_context().as_json else print(line)


def _as_data(graph: GraphView) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(graph)
    for one in (data, *data["members"]):
        for name in ("created_at", "started_at", "finished_at"):
            if name in one:
                one[name] = iso(one[name])
    return data


def _counts(graph: GraphView) -> str:
    return ", ".join(f"{count} {state}" for state, count in graph.summary.items())


def _print(graph: GraphView) -> None:
    print_fields(
        [
            ("graph", graph.id),
            ("name", graph.name),
            ("status", graph.status.value),
            ("revision", str(graph.revision)),
            ("members", _counts(graph)),
            ("created", seconds(graph.created_at)),
            ("finished", seconds(graph.finished_at)),
            ("cancel", f"{graph.policy}: {graph.reason}" if graph.policy else ""),
        ]
    )
    print()
    print_tree("members", trees(graph))


def trees(graph: GraphView) -> list[Tree]:
    """Return the members as trees: each below one of those that it waits for, where all of them
    have been shown; from a certain depth on beside it."""
    place = {member.name: number for number, member in enumerate(graph.members)}
    found = {member.name: Tree(_line(member)) for member in graph.members}
    paths: dict[str, tuple[str, ...]] = {}
    roots: list[Tree] = []
    for member in graph.members:
        above = [name for need in member.needs for name in need.of]
        last = max(above, key=place.__getitem__) if above else None
        path = paths[member.name] = (*paths[last], last)[:DEEPEST] if last is not None else ()
        (found[path[-1]].below if path else roots).append(found[member.name])
    return roots


def _line(member: MemberView) -> str:
    state = (
        member.state.value
        if member.status is None or member.state != "started"
        else member.status.value
    )
    needs = "; ".join(_need(need.of, need.need, need.rest) for need in member.needs)
    after = f"  after {needs}" if needs else ""
    note = f"  ({short(member.note, 80)})" if member.note else ""
    workflow = "" if member.workflow == member.name else f"  {member.workflow}"
    return f"{member.name}  {state}{workflow}{after}{note}"


def _need(upstreams: list[str], need: int, rest: str) -> str:
    shown = ", ".join(upstreams[:5]) + (
        f" and {len(upstreams) - 5} others" if len(upstreams) > 5 else ""
    )
    many = "" if need == len(upstreams) else f"{need} of "
    return f"{many}{shown}" + (" (cancel the rest)" if rest == "cancel" else "")


def _needs(graph: GraphView) -> dict[str, tuple[str, list[tuple[list[str], int, str]]]]:
    return {
        member.name: (
            member.state.value,
            [(need.of, need.need, need.rest) for need in member.needs],
        )
        for member in graph.members
    }


def _json(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()
