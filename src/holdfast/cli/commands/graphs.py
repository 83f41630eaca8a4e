"""``holdfast graphs``: list, start, extend, cancel and replay graphs of runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import click

from holdfast.cli.commands.why import print_why
from holdfast.cli.context import command_context, confirm, deleting, printing
from holdfast.cli.output import print_fields, print_json, print_table, print_tree
from holdfast.cli.paging import MOST, paged, print_page
from holdfast.connect.open_database import OpenDatabase
from holdfast.connect.run_lookup import SHORTEST
from holdfast.core.graphs.document import mermaid, read
from holdfast.core.graphs.model import CancelPolicy, GraphStatus
from holdfast.errors import GraphNotFound
from holdfast.views.graphs import GraphEventView, GraphView, counts_line, trees
from holdfast.views.text import json_line, seconds, short

EPILOG = """\b
Examples:
  holdfast graphs
  holdfast graphs start checkout.json
  holdfast graphs show last
  holdfast graphs show 01m7ge8gkb --mermaid
  holdfast graphs why 01m7ge8gkb ship
  holdfast graphs cancel 01m7ge8gkb --policy pending"""


@click.group(
    short_help="List, start and change graphs of runs.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@click.option(
    "--status",
    type=click.Choice([status.value for status in GraphStatus]),
    help="Only graphs with this status. E.g. --status running",
)
@paged(limit=50, after="01m7ge8gkb")
@printing
@click.pass_context
def graphs(ctx: click.Context, status: str | None, limit: int, after: str | None) -> None:
    """List graphs, newest first; the commands below start and change them. GRAPH is the id of a
    graph, at least the first 6 characters of it, or "last"."""
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as database:
        listed = database.engine.graphs.list(status=status, before=after, limit=limit + 1)
    print_page(listed, limit, lambda graph: graph.id, _print_graphs)


def _print_graphs(page: Sequence[GraphView]) -> None:
    if not page:
        print("no graphs")
        return
    rows = [
        (
            graph.id,
            graph.status.value,
            seconds(graph.created_at),
            counts_line(graph),
            short(graph.name, 40),
        )
        for graph in page
    ]
    print_table(("GRAPH", "STATUS", "CREATED", "MEMBERS", "NAME"), rows)


@graphs.command(epilog="Example: holdfast graphs start checkout.json --id order-7")
@click.argument("file", metavar="FILE", type=click.File("rb"))
@click.option(
    "--id",
    "graph_id",
    metavar="ID",
    help="The id of the graph; the same id and graph again starts nothing. E.g. --id order-7",
)
@printing
def start(file: Any, graph_id: str | None) -> None:
    """Start the graph that a JSON file describes ("-" for standard input), and print its id. The
    file names the members, each with its workflow, args, kwargs and options, and the members that
    it depends on."""
    with command_context().opened(create=True) as database:
        graph = database.engine.graphs.start(read(file.read()), id=graph_id)
    _report({"id": graph.id, "revision": graph.revision}, graph.id)


@graphs.command(epilog="Example: holdfast graphs show last --mermaid")
@click.argument("graph", metavar="GRAPH")
@click.option(
    "--mermaid", "as_mermaid", is_flag=True, help="Print the graph as a Mermaid flowchart."
)
@printing
def show(graph: str, as_mermaid: bool) -> None:
    """Show a graph as a tree of members, with their dependencies and statuses."""
    with command_context().opened() as database:
        view = database.engine.graphs.get(_find(database, graph))
    if as_mermaid:
        print("\n".join(mermaid(_needs(view))))
    elif command_context().as_json:
        print_json(view)
    else:
        _print(view)


@graphs.command(epilog="Example: holdfast graphs extend 01m7ge8gkb more.json --revision 3")
@click.argument("graph", metavar="GRAPH")
@click.argument("file", metavar="FILE", type=click.File("rb"))
@click.option(
    "--revision",
    type=int,
    metavar="N",
    help="Only if the graph still has this revision. E.g. --revision 3",
)
@printing
def extend(graph: str, file: Any, revision: int | None) -> None:
    """Add members and dependencies from a JSON file to a graph that has not ended. A member without
    a workflow refers to an existing member: new members may depend on it, and it on them."""
    with command_context().opened() as database:
        graph_id = _find(database, graph)
        new_revision = database.engine.graphs.extend(graph_id, read(file.read()), revision=revision)
    _report(
        {"id": graph_id, "revision": new_revision}, f"graph {graph_id} has revision {new_revision}"
    )


@graphs.command(epilog="Example: holdfast graphs join 01m7ge8gkb order-7 --name order")
@click.argument("graph", metavar="GRAPH")
@click.argument("run", metavar="RUN")
@click.option(
    "--name",
    metavar="NAME",
    help="The name of the member; by default the id of the run. E.g. --name order",
)
@printing
def join(graph: str, run: str, name: str | None) -> None:
    """Let a run that exists become a member of a graph that has not ended. It keeps its id. If it
    has ended, its outcome counts at once."""
    with command_context().opened() as database:
        graph_id = _find(database, graph)
        revision = database.engine.graphs.join(graph_id, database.find(run).id, name=name)
    _report({"id": graph_id, "revision": revision}, f"graph {graph_id} has revision {revision}")


@graphs.command(
    epilog="Example: holdfast graphs cancel 01m7ge8gkb --policy pending --reason 'out of stock'"
)
@click.argument("graph", metavar="GRAPH")
@click.option(
    "--policy",
    type=click.Choice([policy.value for policy in CancelPolicy]),
    default="all",
    show_default=True,
    help="Cancel only the graph, also members that have not started, or all. E.g. --policy pending",
)
@click.option(
    "--reason",
    default="cancelled by request",
    metavar="TEXT",
    help="The reason. E.g. --reason 'out of stock'",
)
@printing
def cancel(graph: str, policy: str, reason: str) -> None:
    """Cancel a graph: no further member is started."""
    with command_context().opened() as database:
        graph_id = _find(database, graph)
        status = database.engine.graphs.cancel(
            graph_id, policy, reason, by=command_context().person()
        )
    _report({"id": graph_id, "status": status.value}, f"graph {graph_id} is {status.value}")


@graphs.command(epilog="Example: holdfast graphs replay 01m7ge8gkb ship")
@click.argument("graph", metavar="GRAPH")
@click.argument("member", metavar="MEMBER")
@printing
def replay(graph: str, member: str) -> None:
    """Replay a member that has ended, for example failed or was skipped. The members that caused it
    to be skipped, and the members that were skipped because of it, are replayed with it."""
    with command_context().opened() as database:
        graph_id = _find(database, graph)
        database.engine.graphs.replay(graph_id, member, by=command_context().person())
        status = database.engine.graphs.status(graph_id)
    _report({"id": graph_id, "status": status.value}, f"graph {graph_id} is {status.value}")


@graphs.command(epilog="Example: holdfast graphs why 01m7ge8gkb ship")
@click.argument("graph", metavar="GRAPH")
@click.argument("member", metavar="MEMBER")
@printing
def why(graph: str, member: str) -> None:
    """Explain what a member waits for: the missing members, and the command that unblocks it."""
    with command_context().opened() as database:
        explanation = database.engine.graphs.why(_find(database, graph), member)
        print_why(explanation, database.now)


@graphs.command(epilog="Example: holdfast graphs events last")
@click.argument("graph", metavar="GRAPH")
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="SEQ",
    default=0,
    help="Continue after the event with this number. E.g. --after 1000",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, MOST),
    default=1000,
    show_default=True,
    help="The maximum number of events. E.g. --limit 50",
)
@printing
def events(graph: str, after: int, limit: int) -> None:
    """Show the audit trail of a graph."""
    with command_context().opened() as database:
        audit_trail = database.engine.graphs.events(
            _find(database, graph), after=after, limit=limit + 1
        )
    print_page(audit_trail, limit, lambda event: str(event.seq), _print_events)


def _print_events(audit_trail: Sequence[GraphEventView]) -> None:
    rows = [
        (
            str(event.seq),
            seconds(event.at),
            event.kind,
            event.member or "",
            json_line(event.data),
        )
        for event in audit_trail
    ]
    print_table(("SEQ", "AT", "KIND", "MEMBER", "DATA"), rows)


@graphs.command(epilog="Example: holdfast graphs wait last --timeout 5m")
@click.argument("graph", metavar="GRAPH")
@click.option("--timeout", metavar="TIME", help="The maximum time to wait. E.g. --timeout 5m")
@printing
def wait(graph: str, timeout: str | None) -> None:
    """Wait until a graph has ended, and print the results of its last members. The exit code is 1
    if the graph did not complete."""
    with command_context().opened() as database:
        result = database.engine.graphs.result(_find(database, graph), timeout)
    if command_context().as_json:
        print_json(result)
    else:
        print(json_line(result))


@graphs.command(epilog="Example: holdfast graphs prune --older-than 30d --yes")
@click.option(
    "--older-than",
    required=True,
    metavar="TIME",
    help="Only graphs that ended at least this long ago. E.g. --older-than 30d",
)
@deleting
@printing
def prune(older_than: str, yes: bool) -> None:
    """Delete graphs that ended long ago, without their runs; `holdfast db prune` deletes them
    together with their runs."""
    with command_context().opened() as database:
        confirm(f"Delete all graphs that ended more than {older_than} ago?", yes=yes)
        deleted = database.engine.graphs.prune(older_than, by=command_context().person())
    _report({"graphs": deleted}, f"{deleted} graphs deleted")


def _find(database: OpenDatabase, name: str) -> str:
    """Return the id of the graph with the id or id prefix *name*, or of the newest for "last".
    Raises GraphNotFound."""
    graphs = database.engine.graphs
    if name == "last":
        newest = graphs.list(limit=1)
        if not newest:
            raise click.ClickException(
                "the database has no graphs yet: start one with `holdfast graphs start`"
            )
        return newest[0].id
    with suppress(GraphNotFound):
        graphs.status(name)
        return name
    matches = database.graphs_by_prefix(name)
    if len(name) < SHORTEST or not matches:
        raise GraphNotFound(graph=name)
    if len(matches) > 1:
        raise click.ClickException(
            f"several graph ids begin with {name}, such as {matches[0]} and {matches[1]}: give more"
            " characters"
        )
    return matches[0]


def _report(data: dict[str, Any], line: str) -> None:
    if command_context().as_json:
        print_json(data)
    else:
        print(line)


def _print(graph: GraphView) -> None:
    print_fields(
        [
            ("graph", graph.id),
            ("name", graph.name),
            ("status", graph.status.value),
            ("revision", str(graph.revision)),
            ("members", counts_line(graph)),
            ("created", seconds(graph.created_at)),
            ("finished", seconds(graph.finished_at)),
            ("cancel", f"{graph.policy}: {graph.reason}" if graph.policy else ""),
        ]
    )
    print()
    print_tree("members", trees(graph))


def _needs(graph: GraphView) -> dict[str, tuple[str, list[tuple[list[str], int, str]]]]:
    return {
        member.name: (
            member.state.value,
            [(need.of, need.need, need.rest) for need in member.needs],
        )
        for member in graph.members
    }
