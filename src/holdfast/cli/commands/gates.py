"""``holdfast gates, approve, reject``: list, decide, delegate and withdraw gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click

from holdfast.cli.context import command_context, printing, user_name
from holdfast.cli.output import print_fields, print_json, print_table
from holdfast.cli.paging import paged, print_page
from holdfast.cli.params import JSON, MOMENT, many
from holdfast.core.gates.model import APPROVE, REJECT, STATUSES, GateStatus
from holdfast.service.gates import LINK_LIVES
from holdfast.views.gates import GateView, entry_line, state_line
from holdfast.views.text import payload, seconds, short

F = TypeVar("F", bound=Callable[..., Any])

EPILOG = """\b
Examples:
  holdfast gates                             all open gates
  holdfast gates --mine ann --role finance   gates that ann may decide and has not decided
  holdfast gates show last                   the newest open gate, with its entries
  holdfast gates link last yes --by ann      a token that decides it, for a mail or a button
GATE is the id of a gate, at least the first 6 characters of it, "last", or the id of a
run that has one open gate."""


@click.group(
    short_help="List the decisions that are asked of people.",
    epilog=EPILOG,
    invoke_without_command=True,
)
@click.option(
    "--mine",
    metavar="NAME",
    help="Only gates that NAME may decide and has not decided. E.g. --mine ann",
)
@many(
    "--role",
    metavar="A,B",
    help="Only gates that one of these roles may decide. E.g. --role finance",
)
@click.option("--run", metavar="RUN", help="Only gates of this run. E.g. --run last")
@click.option(
    "--workflow", metavar="NAME", help="Only gates of this workflow. E.g. --workflow checkout"
)
@click.option(
    "--overdue",
    is_flag=True,
    help="Only gates that are past their deadline, or for which a reminder was sent.",
)
@many(
    "--status",
    metavar="A,B",
    help=(
        f"Only these statuses: {', '.join(STATUSES)}, closed or any. E.g. --status closed"
        " [default: open]"
    ),
)
@paged(limit=50, after="01m7gq")
@printing
@click.pass_context
def gates(
    ctx: click.Context,
    /,
    run: str | None,
    status: list[str],
    role: list[str],
    limit: int,
    **filters: Any,
) -> None:
    """List the open gates with their prompts, deciders and deadlines."""
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as database:
        run_id = None if run is None else database.find(run).id
        statuses: str | list[str] = "any" if "any" in status else status or GateStatus.OPEN
        listed = database.engine.gates.list(
            run=run_id, status=statuses, role=role, limit=limit + 1, **filters
        )
        now = database.now
    print_page(listed, limit, lambda gate: gate.id, lambda page: _print_gates(page, now))


def _print_gates(page: Sequence[GateView], now: datetime) -> None:
    rows = [
        (gate.id, gate.run, state_line(gate, now), short(gate.who, 30), short(gate.prompt, 60))
        for gate in page
    ]
    print_table(("GATE", "RUN", "STATE", "WHO", "PROMPT"), rows)


@gates.command("show", epilog="Example: holdfast gates show last")
@click.argument("gate", metavar="GATE")
@printing
def show_gate(gate: str) -> None:
    """Show one gate, with its decisions and other entries."""
    with command_context().opened() as database:
        view = database.find_gate(gate)
        now = database.now
    if command_context().as_json:
        print_json(view)
        return
    fields = [
        ("gate", view.id),
        ("run", view.run),
        ("prompt", view.prompt),
        ("state", state_line(view, now)),
        ("choices", ", ".join(view.choices)),
        ("who", view.who),
        ("quorum", "" if view.quorum == 1 else f"{view.quorum}, {view.missing} missing"),
        ("opened", seconds(view.opened_at)),
        ("deadline", seconds(view.deadline)),
        ("data", "" if view.data is None else payload(view.data, 200)),
        ("hash", view.hash or ""),
        ("reason", view.reason or ""),
    ]
    print_fields(fields)
    for entry in view.entries:
        print(f"  {seconds(entry.at)}  {entry_line(entry)}")


# Decisions


def _deciding(command: F) -> F:
    """Add the options of a decision to a command: who decides, and what they fill in."""
    for option in (
        click.option(
            "--expect",
            metavar="HASH",
            help="Decide only if the data of the gate has this hash. E.g. --expect 5d41...",
        ),
        click.option(
            "--form",
            metavar="JSON",
            type=JSON,
            help="The values of the form. E.g. --form '{\"amount\": 10}'",
        ),
        many(
            "--select",
            "selections",
            metavar="A,B",
            help="The selected options. E.g. --select soup",
        ),
        click.option(
            "--feedback",
            metavar="TEXT",
            help="A comment for the workflow. E.g. --feedback 'not before Monday'",
        ),
        many("--role", "roles", metavar="A,B", help="Your roles. E.g. --role finance"),
        click.option(
            "--by",
            metavar="NAME",
            help="Who decides; default: your user name. E.g. --by ann",
        ),
    ):
        command = option(command)
    return printing(command)


@click.command(
    short_help="Approve what a gate asks.",
    epilog="Example: holdfast approve last --by ann --feedback 'looks good'",
)
@click.argument("gate", metavar="GATE")
@_deciding
def approve(gate: str, **answer: Any) -> None:
    """Choose the option that means yes. If the gate has none, name options with --select, or use
    `holdfast gates decide`."""
    _decide(gate, APPROVE, **answer)


@click.command(
    short_help="Reject what a gate asks.",
    epilog="Example: holdfast reject last --by ann --feedback 'too expensive'",
)
@click.argument("gate", metavar="GATE")
@_deciding
def reject(gate: str, **answer: Any) -> None:
    """Choose the option that means no. If the gate has none, its wait in the workflow raises
    GateRejected."""
    _decide(gate, REJECT, **answer)


@gates.command(
    "decide",
    epilog="Example: holdfast gates decide last express --by ann",
)
@click.argument("gate", metavar="GATE")
@click.argument("choice", metavar="CHOICE")
@_deciding
def decide_gate(gate: str, choice: str, **answer: Any) -> None:
    """Choose one of the options of a gate."""
    _decide(gate, choice, **answer)


def _decide(name: str, choice: str, *, by: str | None, roles: list[str], **answer: Any) -> None:
    with command_context().opened() as database:
        gate = database.find_gate(name)
        changed = database.engine.gates.decide(
            gate, choice, by=by or user_name(), roles=roles, **answer
        )
        _report(changed)


def _report(gate: GateView, outcome: str = "your decision was recorded") -> None:
    """Print a gate after a change; *outcome* is printed if the gate is still open."""
    if command_context().as_json:
        print_json(gate)
    elif gate.status == GateStatus.OPEN:
        missing = f"; {gate.missing} more must agree" if gate.quorum > 1 else ""
        print(f"gate {gate.id}: {outcome}{missing}")
    else:
        print(f"gate {gate.id} is {state_line(gate, gate.opened_at)}")


# Delegation


@gates.command(
    "delegate",
    epilog="Example: holdfast gates delegate last --to bob --by ann",
)
@click.argument("gate", metavar="GATE")
@click.option(
    "--to", metavar="NAME", required=True, help="The person who decides instead. E.g. --to bob"
)
@click.option("--by", metavar="NAME", help="In whose place; default: your user name. E.g. --by ann")
@many("--role", "roles", metavar="A,B", help="Your roles. E.g. --role finance")
@click.option("--reason", metavar="TEXT", help="The reason. E.g. --reason 'on holiday'")
@printing
def delegate_gate(gate: str, to: str, by: str | None, roles: list[str], reason: str | None) -> None:
    """Let another person decide in your place."""
    with command_context().opened() as database:
        changed = database.engine.gates.delegate(
            database.find_gate(gate),
            to,
            by=by or user_name(),
            roles=roles,
            reason=reason,
        )
        _report(changed, f"{to} may decide")


@gates.command(
    "reassign",
    epilog="Example: holdfast gates reassign last --to bob,carol --role finance",
)
@click.argument("gate", metavar="GATE")
@many("--to", metavar="A,B", help="The people who may decide. E.g. --to bob,carol")
@many("--role", "roles", metavar="A,B", help="The roles that may decide. E.g. --role finance")
@click.option(
    "--by", metavar="NAME", help="Who makes the change; default: your user name. E.g. --by root"
)
@click.option("--reason", metavar="TEXT", help="The reason. E.g. --reason 'ann is on holiday'")
@printing
def reassign_gate(
    gate: str, to: list[str], roles: list[str], by: str | None, reason: str | None
) -> None:
    """Replace the people and roles who may decide a gate."""
    if not to and not roles:
        raise click.UsageError("the people who may decide are missing: use --to or --role")
    with command_context().opened() as database:
        changed = database.engine.gates.reassign(
            database.find_gate(gate),
            assignees=to,
            roles=roles,
            by=by or user_name(),
            reason=reason,
        )
        _report(changed, f"{changed.who} may decide")


# Withdrawal, update and links


@gates.command(
    "withdraw", epilog="Example: holdfast gates withdraw last --by root --reason 'no longer needed'"
)
@click.argument("gate", metavar="GATE")
@click.option(
    "--by", metavar="NAME", help="Who makes the change; default: your user name. E.g. --by root"
)
@click.option("--reason", metavar="TEXT", help="The reason. E.g. --reason 'no longer needed'")
@printing
def withdraw_gate(gate: str, by: str | None, reason: str | None) -> None:
    """Close a gate without a decision; its wait in the workflow raises GateWithdrawn."""
    with command_context().opened() as database:
        changed = database.engine.gates.withdraw(
            database.find_gate(gate), by=by or user_name(), reason=reason
        )
        _report(changed)


@gates.command("update", epilog="Example: holdfast gates update last '{\"rows\": 4}' --by root")
@click.argument("gate", metavar="GATE")
@click.argument("data", metavar="DATA_JSON", type=JSON)
@click.option(
    "--by", metavar="NAME", help="Who makes the change; default: your user name. E.g. --by root"
)
@click.option("--reason", metavar="TEXT", help="The reason. E.g. --reason 'a row was missing'")
@printing
def update_gate(gate: str, data: Any, by: str | None, reason: str | None) -> None:
    """Replace the data of a gate: decisions made so far lapse, and people decide again."""
    with command_context().opened() as database:
        changed = database.engine.gates.update(
            database.find_gate(gate), data, by=by or user_name(), reason=reason
        )
        _report(changed, f"the data to decide on has the hash {changed.hash}")


@gates.command("link", epilog="Example: holdfast gates link last yes --by ann --expires 2d")
@click.argument("gate", metavar="GATE")
@click.argument("choice", metavar="CHOICE")
@click.option(
    "--by",
    metavar="NAME",
    required=True,
    help="The person in whose name the token decides. E.g. --by ann",
)
@many("--role", "roles", metavar="A,B", help="The roles of that person. E.g. --role finance")
@click.option(
    "--expires",
    metavar="WHEN",
    type=MOMENT,
    default=LINK_LIVES,
    show_default=True,
    help="Until when the token is valid. E.g. --expires 2d",
)
@printing
def link_gate(gate: str, choice: str, by: str, roles: list[str], expires: Any) -> None:
    """Print a token that decides a gate once, with this choice. Every holder of the token can use
    it to decide in that person's name."""
    with command_context().opened() as database:
        record = database.find_gate(gate)
        token = database.engine.gates.link(record, choice, by=by, roles=roles, expires=expires)
    if command_context().as_json:
        print_json({"gate": record.id, "choice": choice, "by": by, "token": str(token)})
    else:
        print(str(token))


@gates.command(
    "answer", epilog="Example: holdfast gates answer k1.eyJ... --feedback 'from my phone'"
)
@click.argument("token", metavar="TOKEN", envvar="HOLDFAST_TOKEN")
@click.option(
    "--feedback",
    metavar="TEXT",
    help="A comment for the workflow. E.g. --feedback 'not before Monday'",
)
@printing
def answer_gate(token: str, feedback: str | None) -> None:
    """Decide a gate with the token of a link (or HOLDFAST_TOKEN)."""
    with command_context().opened() as database:
        _report(database.engine.gates.answer(token, feedback=feedback))
