"""``holdfast models tokens, trace, incidents, retry, modify, ...``: see and operate the runs of
models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from holdfast.cli.context import command_context, printing, user_name
from holdfast.cli.output import print_json, print_table
from holdfast.cli.paging import items_after, paged, print_page
from holdfast.cli.params import OBJECT, PairsValue, many
from holdfast.views.model_runs import IncidentView, TokenView, TraceView
from holdfast.views.text import payload, seconds, short

F = TypeVar("F", bound=Callable[..., Any])


def _by(command: F) -> F:
    return click.option(
        "--by", metavar="NAME", help="Who does it; default: your user name. E.g. --by ann"
    )(command)


def _reason(command: F) -> F:
    return click.option(
        "--reason", metavar="TEXT", help="The reason. E.g. --reason 'the clerk is away'"
    )(command)


def _at(command: F) -> F:
    return click.option(
        "--at",
        metavar="N",
        type=click.IntRange(min=0),
        help="As of the event with this number. E.g. --at 12",
    )(command)


def _person(by: str | None) -> str:
    return by or user_name()


def _report(fields: dict[str, Any], line: str) -> None:
    if command_context().as_json:
        print_json(fields)
    else:
        print(line)


# Seeing


@click.command("tokens", epilog="Example: holdfast models tokens last --at 12")
@click.argument("run", metavar="RUN")
@_at
@paged(limit=1000, after="12")
@printing
def tokens(run: str, at: int | None, limit: int, after: str | None) -> None:
    """List the tokens of a run: its positions in the model, and what each waits for."""
    with command_context().opened() as database:
        listed = database.engine.models.tokens(database.find(run).id, at)
    print_page(items_after(listed, after, _token, limit), limit, _token, _print_tokens)


def _token(token: TokenView) -> str:
    return token.id


def _print_tokens(listed: Sequence[TokenView]) -> None:
    rows = [
        (
            token.id,
            token.element,
            token.kind,
            token.status,
            token.waits_for or "",
            seconds(token.since),
        )
        for token in listed
    ]
    print_table(("TOKEN", "ELEMENT", "KIND", "STATUS", "WAITS FOR", "SINCE"), rows)


@click.command("trace", epilog="Example: holdfast models trace last")
@click.argument("run", metavar="RUN")
@_at
@printing
def trace(run: str, at: int | None) -> None:
    """Show the path of a run through its model, also after its end."""
    with command_context().opened() as database:
        path = database.engine.models.trace(database.find(run).id, at)
    if command_context().as_json:
        print_json(path)
    else:
        _print_trace(path)


def _print_trace(path: TraceView) -> None:
    rows = [
        (
            element,
            str(counts.entered),
            str(counts.completed),
            str(counts.cancelled),
            str(counts.active),
            str(counts.incidents),
        )
        for element, counts in path.elements.items()
    ]
    print_table(("ELEMENT", "ENTERED", "COMPLETED", "CANCELLED", "ACTIVE", "INCIDENTS"), rows)
    print(f"flows: {' '.join(path.flows)}")


@click.command("variables", epilog="Example: holdfast models variables last --element approve")
@click.argument("run", metavar="RUN")
@click.option(
    "--element", metavar="ID", help="As seen from this active element. E.g. --element approve"
)
@printing
def variables(run: str, element: str | None) -> None:
    """Print the variables of a run as JSON."""
    with command_context().opened() as database:
        print_json(database.engine.models.variables(database.find(run).id, element))


@click.command("set", epilog="Example: holdfast models set last '{\"amount\": 12}' --by ann")
@click.argument("run", metavar="RUN")
@click.argument("variables", metavar="VARIABLES_JSON", type=OBJECT)
@click.option(
    "--element", metavar="ID", help="In the scope of this active element. E.g. --element approve"
)
@_by
@printing
def set_variables(run: str, variables: dict[str, Any], element: str | None, by: str | None) -> None:
    """Set variables of a run; conditional events are evaluated again. A worker applies it."""
    with command_context().opened() as database:
        run_id = database.find(run).id
        database.engine.models.set_variables(run_id, variables, element=element, by=_person(by))
    _report({"run": run_id, "set": variables}, f"run {run_id}: {payload(variables)} is set")


# Incidents


@click.command("incidents", epilog="Example: holdfast models incidents --run last")
@click.option("--run", metavar="RUN", help="Only incidents of this run. E.g. --run last")
@paged(limit=50, after="charge!1@01m7ge8gkb9apz")
@printing
def incidents(run: str | None, limit: int, after: str | None) -> None:
    """List the open incidents: elements that have failed and need an operator."""
    with command_context().opened() as database:
        run_id = None if run is None else database.find(run).id
        listed = database.engine.models.incidents(run=run_id, after=after, limit=limit + 1)
    print_page(listed, limit, _id, _print_incidents)


def _id(incident: IncidentView) -> str:
    return incident.id


def _print_incidents(page: Sequence[IncidentView]) -> None:
    rows = [
        (
            incident.id,
            incident.element,
            str(incident.attempts),
            seconds(incident.since),
            short(str((incident.error or {}).get("message", "")), 60),
        )
        for incident in page
    ]
    print_table(("INCIDENT", "ELEMENT", "ATTEMPTS", "SINCE", "ERROR"), rows)


@click.command("retry", epilog="Example: holdfast models retry INCIDENT '{\"amount\": 12}'")
@click.argument("incident", metavar="INCIDENT")
@click.argument("variables", metavar="[VARIABLES_JSON]", type=OBJECT, required=False)
@_by
@printing
def retry(incident: str, variables: dict[str, Any] | None, by: str | None) -> None:
    """Try a failed element again, with changed variables if some are given."""
    with command_context().opened() as database:
        database.engine.models.retry(incident, variables, _person(by))
    _report({"retried": incident}, f"incident {incident}: the element is tried again")


@click.command("skip", epilog="Example: holdfast models skip INCIDENT '{\"payment\": null}'")
@click.argument("incident", metavar="INCIDENT")
@click.argument("variables", metavar="[VARIABLES_JSON]", type=OBJECT, required=False)
@_by
@printing
def skip(incident: str, variables: dict[str, Any] | None, by: str | None) -> None:
    """Continue after a failed element, as if it had completed with these variables."""
    with command_context().opened() as database:
        database.engine.models.skip(incident, variables, _person(by))
    _report({"skipped": incident}, f"incident {incident}: the run continues behind the element")


# Moves


@click.command("modify", epilog="Example: holdfast models modify last --move 3=approve --dry-run")
@click.argument("run", metavar="RUN")
@many(
    "--move",
    "moved",
    metavar="TOKEN=ELEMENT",
    type=PairsValue("move", "3=approve"),
    help="Move a token to another element. E.g. --move 3=approve",
)
@many("--add", "added", metavar="ELEMENT", help="Add a token at an element. E.g. --add approve")
@many("--cancel", "cancelled", metavar="TOKEN", help="End a token. E.g. --cancel 3")
@_reason
@click.option(
    "--expect",
    metavar="N",
    type=click.IntRange(min=0),
    help="Only if the last event of the run has this number. E.g. --expect 12",
)
@click.option("--dry-run", is_flag=True, help="Only show the tokens that the run would have.")
@_by
@printing
def modify(
    run: str,
    moved: list[tuple[str, str]],
    added: list[str],
    cancelled: list[str],
    by: str | None,
    **options: Any,
) -> None:
    """Move, add and cancel tokens of a run, all or none, and list its tokens. A worker applies
    it."""
    moves: list[dict[str, Any]] = [
        *({"kind": "move", "token": token, "element": to} for token, to in moved),
        *({"kind": "add", "element": element} for element in added),
        *({"kind": "cancel", "token": token} for token in cancelled),
    ]
    if not moves:
        raise click.UsageError("say what to change: use --move, --add or --cancel")
    with command_context().opened() as database:
        run_id = database.find(run).id
        changed = database.engine.models.modify(run_id, *moves, by=_person(by), **options)
    print_page(changed, len(changed), _token, _print_tokens)


@click.command("suspend", epilog="Example: holdfast models suspend last")
@click.argument("run", metavar="RUN")
@_reason
@_by
@printing
def suspend(run: str, by: str | None, reason: str | None) -> None:
    """Let the tokens of a run stay where they are. A worker applies it."""
    _instruct(run, "suspend", "suspended", by, reason)


@click.command("resume", epilog="Example: holdfast models resume last")
@click.argument("run", metavar="RUN")
@_reason
@_by
@printing
def resume(run: str, by: str | None, reason: str | None) -> None:
    """Let the tokens of a suspended run move again. A worker applies it."""
    _instruct(run, "resume", "resumed", by, reason)


@click.command("trigger", epilog="Example: holdfast models trigger last wait-for-call")
@click.argument("run", metavar="RUN")
@click.argument("element", metavar="ELEMENT")
@_by
@printing
def trigger(run: str, element: str, by: str | None) -> None:
    """Release a receive task that names no message. A worker applies it."""
    with command_context().opened() as database:
        run_id = database.find(run).id
        database.engine.models.trigger(run_id, element, _person(by))
    _report({"run": run_id, "triggered": element}, f"run {run_id}: {element} is released")


@click.command("start-activity", epilog="Example: holdfast models start-activity last care call")
@click.argument("run", metavar="RUN")
@click.argument("scope", metavar="SCOPE")
@click.argument("activity", metavar="ACTIVITY")
@_by
@printing
def start_activity(run: str, scope: str, activity: str, by: str | None) -> None:
    """Start an activity of an ad hoc sub-process. A worker applies it."""
    with command_context().opened() as database:
        run_id = database.find(run).id
        database.engine.models.start_activity(run_id, scope, activity, _person(by))
    _report({"run": run_id, "started": activity}, f"run {run_id}: {activity} is started")


def _instruct(run: str, verb: str, outcome: str, by: str | None, reason: str | None) -> None:
    with command_context().opened() as database:
        run_id = database.find(run).id
        getattr(database.engine.models, verb)(run_id, _person(by), reason)
    _report({"run": run_id, "tokens": outcome}, f"run {run_id}: its tokens are {outcome}")


OPERATOR_COMMANDS: tuple[click.Command, ...] = (
    tokens,
    trace,
    variables,
    set_variables,
    incidents,
    retry,
    skip,
    modify,
    suspend,
    resume,
    trigger,
    start_activity,
)
