"""``holdfast gates, approve, reject, decide, delegate, reassign``: what people are asked, and what
they answer."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from typing import Any, TypeVar

import click

from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import iso, print_fields, print_json, print_table, seconds, short
from holdfast.cli.params import JSON, MOMENT, ListValue
from holdfast.core.gates.model import APPROVE, OPEN, REJECT, STATUSES, Gate
from holdfast.core.gates.rules import told_who
from holdfast.core.why.model import away
from holdfast.errors import GateNotFound
from holdfast.service.gates import LINK_LIVES, as_data
from holdfast.store.contract import GateFilter

F = TypeVar("F", bound=Callable[..., Any])

SHORTEST = 6
"""Characters of an id that can stand for it."""

EPILOG = """\b
Examples:
  holdfast gates                             all that are open
  holdfast gates --mine ann --role finance   what ann may decide, and has not yet
  holdfast gates show last                   one of them, with what was done to it
  holdfast gates link last yes --by ann      a token that answers it, for a mail or a button
A GATE is its id, the first 6 or more characters of it, "last", or the id of a run
that has one open gate."""

_TIMES = ("opened_at", "deadline", "closed_at")
_LIST = ListValue()


@click.group(
    short_help="List what people are asked to decide.", epilog=EPILOG, invoke_without_command=True
)
@click.option(
    "--mine", metavar="NAME", help="Only what NAME may decide and has not yet. E.g. --mine ann"
)
@click.option(
    "--role",
    metavar="A,B",
    type=_LIST,
    help="Only what those with one of these roles may decide. E.g. --role finance",
)
@click.option("--run", metavar="RUN", help="Only those of one run. E.g. --run last")
@click.option(
    "--workflow", metavar="NAME", help="Only those of one workflow. E.g. --workflow checkout"
)
@click.option(
    "--overdue",
    is_flag=True,
    help="Only those that are past their time, or that people were reminded of.",
)
@click.option(
    "--status",
    metavar="A,B",
    default=OPEN,
    show_default=True,
    help=f"Which ones: {', '.join(STATUSES)}, closed or any. E.g. --status closed",
)
@click.option(
    "--after",
    metavar="GATE",
    help="Only those opened after this one: the next page. E.g. --after 01m7gq",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="How many. E.g. --limit 500",
)
@printing
@click.pass_context
def gates(
    ctx: click.Context, /, run: str | None, status: str, role: list[str] | None, **filters: Any
) -> None:
    """List the gates that are open: who may decide what, and until when."""
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as office:
        run_id = None if run is None else office.find(run).id
        statuses = (
            "any"
            if status == "any"
            else [word.strip() for word in status.split(",") if word.strip()]
        )
        found = office.engine.gates(run=run_id, status=statuses, role=role or (), **filters)
        if command_context().as_json:
            print_json([_data(office, gate) for gate in found])
            return
        now = office.store.now()
        rows = [
            (
                gate.id,
                gate.run_id,
                _state(gate, now),
                short(told_who(gate), 30),
                short(gate.prompt, 60),
            )
            for gate in found
        ]
        print_table(("GATE", "RUN", "STATE", "WHO", "PROMPT"), rows)


@gates.command("show", epilog="Example: holdfast gates show last")
@click.argument("gate", metavar="GATE")
@printing
def show_gate(gate: str) -> None:
    """Show one gate and what was done to it."""
    with command_context().opened() as office:
        found = _find(office, gate)
        data = _data(office, found)
        if command_context().as_json:
            print_json(data)
            return
        now = office.store.now()
        fields = [
            ("gate", found.id),
            ("run", found.run_id),
            ("prompt", found.prompt),
            ("state", _state(found, now)),
            ("choices", ", ".join(found.choices)),
            ("who", told_who(found)),
            (
                "quorum",
                (
                    ""
                    if found.terms.quorum == 1
                    else f"{found.terms.quorum}, {data['missing']} missing"
                ),
            ),
            ("opened", seconds(found.opened_at)),
            ("deadline", seconds(found.deadline)),
            ("data", short(found.data, 200)),
            ("hash", found.hash or ""),
            ("reason", found.reason or ""),
        ]
        print_fields(fields)
        for entry in data["entries"]:
            print(f"  {entry['at']}  {_line(entry)}")


def _line(entry: dict[str, Any]) -> str:
    words = [
        entry["kind"],
        entry.get("choice") or "",
        f"by {entry['person']}" if entry.get("person") else "",
    ]
    words += [
        f"to {', '.join(entry['names'])}" if entry.get("names") else "",
        entry.get("feedback") or entry.get("reason") or "",
    ]
    return " ".join(word for word in [*words, "(lapsed)" if entry.get("lapsed") else ""] if word)


def _state(gate: Gate, now: int) -> str:
    if gate.status != OPEN:
        return f"{gate.status}{f': {gate.choice}' if gate.choice else ''}"
    return "open" if gate.deadline is None else f"open, ends {away(gate.deadline, now)}"


def _data(office: OpenDatabase, gate: Gate) -> dict[str, Any]:
    found = as_data(gate, office.store)
    entries = [{**entry, "at": iso(entry["at"])} for entry in found["entries"]]
    return {**found, **{name: iso(found[name]) for name in _TIMES}, "entries": entries}


def _find(office: OpenDatabase, name: str) -> Gate:
    """Return the gate that an id, the beginning of one, "last", or a run with one open gate names.
    Raises GateNotFound."""
    if name == "last":
        found = office.store.gates(
            GateFilter(statuses=[OPEN], limit=10_000, namespace=command_context().namespace)
        )
        if not found:
            raise click.ClickException("no gate is open")
        return found[-1]
    try:
        return office.engine.gate(name)
    except GateNotFound:
        page = (
            office.store.gates(
                GateFilter(after=name, limit=2, namespace=command_context().namespace)
            )
            if len(name) >= SHORTEST
            else []
        )
        begun = [gate for gate in page if gate.id.startswith(name)]
        if len(begun) != 1:
            raise
        return begun[0]


# Answering


def _answering(command: F) -> F:
    """Let a command say who decides, and why."""
    for option in (
        click.option(
            "--expect",
            metavar="HASH",
            help="Decide only if what is decided on has this hash. E.g. --expect 5d41...",
        ),
        click.option(
            "--form",
            metavar="JSON",
            type=JSON,
            help="What is filled in. E.g. --form '{\"amount\": 10}'",
        ),
        click.option(
            "--select",
            "selections",
            metavar="OPTION",
            multiple=True,
            help="One of the options; may be repeated. E.g. --select soup",
        ),
        click.option(
            "--feedback",
            metavar="TEXT",
            help="What to tell the workflow. E.g. --feedback 'not before Monday'",
        ),
        click.option(
            "--role",
            "roles",
            metavar="A,B",
            type=_LIST,
            help="The roles that you have. E.g. --role finance",
        ),
        click.option(
            "--by",
            metavar="NAME",
            help="Who decides; default: your name on this machine. E.g. --by ann",
        ),
    ):
        command = option(command)
    return printing(command)


@click.command(
    short_help="Approve what a gate asks.",
    epilog="Example: holdfast approve last --by ann --feedback 'looks good'",
)
@click.argument("gate", metavar="GATE")
@_answering
def approve(gate: str, **answer: Any) -> None:
    """Choose what means yes; where nothing does, name some options with --select, or use `holdfast
    decide`."""
    _answer(gate, APPROVE, **answer)


@click.command(
    short_help="Reject what a gate asks.",
    epilog="Example: holdfast reject last --by ann --feedback 'too expensive'",
)
@click.argument("gate", metavar="GATE")
@_answering
def reject(gate: str, **answer: Any) -> None:
    """Choose what means no; where nothing does, the workflow fails with GateRejected unless it
    foresees that."""
    _answer(gate, REJECT, **answer)


@click.command(
    short_help="Choose one of the options of a gate.",
    epilog="Example: holdfast decide last express --by ann",
)
@click.argument("gate", metavar="GATE")
@click.argument("choice", metavar="CHOICE")
@_answering
def decide(gate: str, choice: str, **answer: Any) -> None:
    """Choose one of the options of a gate."""
    _answer(gate, choice, **answer)


def _answer(
    name: str, choice: str, *, by: str | None, roles: list[str] | None, **answer: Any
) -> None:
    with command_context().opened() as office:
        gate = _find(office, name)
        done = office.engine.decide(
            gate, choice, by=by or getpass.getuser(), roles=roles or (), **answer
        )
        _tell(office, done)


def _tell(office: OpenDatabase, gate: Gate, what: str = "your decision stands") -> None:
    data = _data(office, gate)
    if command_context().as_json:
        print_json(data)
    elif gate.status == OPEN:
        needs = f"; {data['missing']} more must agree" if gate.terms.quorum > 1 else ""
        print(f"gate {gate.id}: {what}{needs}")
    else:
        print(f"gate {gate.id} is {gate.status}{f': {gate.choice}' if gate.choice else ''}")


# Handing on


@click.command(
    short_help="Let somebody else decide in your place.",
    epilog="Example: holdfast delegate last --to bob --by ann",
)
@click.argument("gate", metavar="GATE")
@click.option("--to", metavar="NAME", required=True, help="Who decides instead. E.g. --to bob")
@click.option(
    "--by", metavar="NAME", help="In whose place; default: your name on this machine. E.g. --by ann"
)
@click.option(
    "--role",
    "roles",
    metavar="A,B",
    type=_LIST,
    help="The roles that you have. E.g. --role finance",
)
@click.option("--reason", metavar="TEXT", help="Why. E.g. --reason 'on holiday'")
@printing
def delegate(
    gate: str, to: str, by: str | None, roles: list[str] | None, reason: str | None
) -> None:
    """Let somebody else decide in your place."""
    with command_context().opened() as office:
        found = _find(office, gate)
        done = office.engine.delegate(
            found, to, by=by or getpass.getuser(), roles=roles or (), reason=reason
        )
        _tell(office, done, f"{to} may decide")


@click.command(
    short_help="Name others who may decide.",
    epilog="Example: holdfast reassign last --to bob,carol --role finance",
)
@click.argument("gate", metavar="GATE")
@click.option(
    "--to",
    metavar="A,B",
    type=_LIST,
    help="The people who may decide from now on. E.g. --to bob,carol",
)
@click.option(
    "--role", "roles", metavar="A,B", type=_LIST, help="The roles that may. E.g. --role finance"
)
@click.option(
    "--by", metavar="NAME", help="Who says so; default: your name on this machine. E.g. --by root"
)
@click.option("--reason", metavar="TEXT", help="Why. E.g. --reason 'ann is on holiday'")
@printing
def reassign(
    gate: str, to: list[str] | None, roles: list[str] | None, by: str | None, reason: str | None
) -> None:
    """Name others who may decide, in place of those who could."""
    if not to and not roles:
        raise click.UsageError("say who may decide from now on: --to or --role")
    with command_context().opened() as office:
        found = _find(office, gate)
        done = office.engine.reassign(
            found, assignees=to or (), roles=roles or (), by=by or getpass.getuser(), reason=reason
        )
        _tell(office, done, f"{told_who(done)} may decide")


# What whoever asked does, and links


@gates.command(
    "withdraw", epilog="Example: holdfast gates withdraw last --by root --reason 'no longer needed'"
)
@click.argument("gate", metavar="GATE")
@click.option(
    "--by", metavar="NAME", help="Who says so; default: your name on this machine. E.g. --by root"
)
@click.option("--reason", metavar="TEXT", help="Why. E.g. --reason 'no longer needed'")
@printing
def withdraw_gate(gate: str, by: str | None, reason: str | None) -> None:
    """Close a gate undecided; its workflow sees GateWithdrawn."""
    with command_context().opened() as office:
        _tell(
            office,
            office.engine.withdraw(_find(office, gate), by=by or getpass.getuser(), reason=reason),
        )


@gates.command("update", epilog="Example: holdfast gates update last '{\"rows\": 4}' --by root")
@click.argument("gate", metavar="GATE")
@click.argument("data", metavar="DATA_JSON", type=JSON)
@click.option(
    "--by", metavar="NAME", help="Who says so; default: your name on this machine. E.g. --by root"
)
@click.option("--reason", metavar="TEXT", help="Why. E.g. --reason 'a row was missing'")
@printing
def update_gate(gate: str, data: Any, by: str | None, reason: str | None) -> None:
    """Change what is decided on: decisions made so far lapse, and people decide again."""
    with command_context().opened() as office:
        done = office.engine.update_gate(
            _find(office, gate), data, by=by or getpass.getuser(), reason=reason
        )
        _tell(office, done, f"people decide on {done.hash}")


@gates.command("link", epilog="Example: holdfast gates link last yes --by ann --expires 2d")
@click.argument("gate", metavar="GATE")
@click.argument("choice", metavar="CHOICE")
@click.option(
    "--by", metavar="NAME", required=True, help="As whom the token decides. E.g. --by ann"
)
@click.option(
    "--role",
    "roles",
    metavar="A,B",
    type=_LIST,
    help="The roles that they have. E.g. --role finance",
)
@click.option(
    "--expires",
    metavar="WHEN",
    type=MOMENT,
    default=LINK_LIVES,
    show_default=True,
    help="Until when. E.g. --expires 2d",
)
@printing
def link_gate(gate: str, choice: str, by: str, roles: list[str] | None, expires: Any) -> None:
    """Print a token that answers a gate in one way, once: whoever has it decides in that person's
    place."""
    with command_context().opened() as office:
        found = _find(office, gate)
        token = office.engine.gate_link(found, choice, by=by, roles=roles or (), expires=expires)
    if command_context().as_json:
        print_json({"gate": found.id, "choice": choice, "by": by, "token": str(token)})
    else:
        print(str(token))


@gates.command(
    "answer", epilog="Example: holdfast gates answer k1.eyJ... --feedback 'from my phone'"
)
@click.argument("token", metavar="TOKEN", envvar="HOLDFAST_TOKEN")
@click.option(
    "--feedback",
    metavar="TEXT",
    help="What to tell the workflow. E.g. --feedback 'not before Monday'",
)
@printing
def answer_gate(token: str, feedback: str | None) -> None:
    """Answer a gate with the token of a link (or HOLDFAST_TOKEN)."""
    with command_context().opened() as office:
        _tell(office, office.engine.answer(token, feedback=feedback))
