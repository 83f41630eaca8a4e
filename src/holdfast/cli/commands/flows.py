"""``holdfast flows``: work that somebody outside drives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import Tree, print_fields, print_json, print_table, print_tree, short
from holdfast.cli.params import DURATION, JSON, MOMENT
from holdfast.core.flows.model import FlowStatus, FlowStepStatus
from holdfast.service.flows import Flow, FlowEvent, FlowStep

F = TypeVar("F", bound=Callable[..., Any])

EPILOG = """\b
Examples:
  holdfast flows
  holdfast flows create research 'compare three vendors' --owner agent:7 --start
  holdfast flows wait 01m7ge8gkb --topic invoice --correlation 77
  holdfast flows deliver 01m7ge8gkb invoice 77 '{"paid": true}'
  holdfast flows show 01m7ge8gkb"""


def moving(command: F) -> F:
    """Give a command that changes a flow the options that guard it."""
    for option in (
        click.option(
            "--revision",
            type=int,
            metavar="N",
            help="Only if nobody changed it since then. E.g. --revision 3",
        ),
        click.option(
            "--owner",
            metavar="OWNER",
            help="Only if it belongs to this owner. E.g. --owner agent:7",
        ),
    ):
        command = option(command)
    return command


@click.group(
    short_help="List managed flows, and drive them.", epilog=EPILOG, invoke_without_command=True
)
@click.option("--owner", metavar="OWNER", help="Only those of this owner. E.g. --owner agent:7")
@click.option(
    "--status",
    type=click.Choice([status.value for status in FlowStatus]),
    help="Only those of this status. E.g. --status waiting",
)
@click.option(
    "--before",
    metavar="FLOW",
    help="The next page: the last flow of the one before. E.g. --before 01m7ge8gkb",
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
def flows(ctx: click.Context, /, **which: Any) -> None:
    """List managed flows, those changed last first; the commands below drive them. FLOW is the id
    of one."""
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as office:
        found = office.engine.flows.list(**which)
    if command_context().as_json:
        print_json(found)
        return
    if not found:
        print("no flows")
        return
    rows = [
        (
            flow.id,
            flow.status.value,
            short(flow.current_step, 20),
            _when(flow.updated_at),
            short(flow.goal, 50),
        )
        for flow in found
    ]
    print_table(("FLOW", "STATUS", "STEP", "UPDATED", "GOAL"), rows)


@flows.command(
    epilog="Example: holdfast flows create research 'compare three vendors' --owner agent:7 --start"
)
@click.argument("controller", metavar="CONTROLLER")
@click.argument("goal", metavar="GOAL")
@click.option(
    "--owner", required=True, metavar="OWNER", help="Whose flow it is. E.g. --owner agent:7"
)
@click.option(
    "--requester", default="", metavar="WHO", help="Who asked for it. E.g. --requester anna"
)
@click.option(
    "--step",
    "current_step",
    default="init",
    show_default=True,
    metavar="STEP",
    help="What is done first. E.g. --step search",
)
@click.option(
    "--state",
    type=JSON,
    metavar="JSON",
    help="""What it knows at first. E.g. --state '{"vendors": 3}'""",
)
@click.option("--id", metavar="ID", help="Its id, to be chosen by you. E.g. --id vendors-2026")
@click.option("--start", is_flag=True, help="Begin at once.")
@printing
def create(controller: str, goal: str, owner: str, **options: Any) -> None:
    """Create a flow and print its id."""
    with command_context().opened(create=True) as office:
        made = office.engine.flows.create(controller, goal, owner=owner, **options)
    _tell(made, made.id)


@flows.command(epilog="Example: holdfast flows show 01m7ge8gkb")
@click.argument("flow", metavar="FLOW")
@printing
def show(flow: str) -> None:
    """Show a flow, its steps and its audit trail."""
    with command_context().opened() as office:
        calls = office.engine.flows
        found, steps, events = calls.get(flow), calls.steps(flow), calls.events(flow, limit=1000)
        why = calls.why(flow)
    if command_context().as_json:
        print_json({**_as_dict(found), "steps": steps, "events": events})
        return
    print_fields(
        [
            ("flow", found.id),
            ("controller", found.controller),
            ("goal", found.goal),
            ("owner", found.owner),
            ("status", _status(found)),
            ("step", found.current_step),
            ("waits for", _wait(found)),
            ("to go on", "" if why.remedy is None else command_context().command(why.remedy)),
            ("state", short(_json(found.state), 200)),
            ("revision", str(found.revision)),
        ]
    )
    if steps:
        print_tree("steps", [Tree(_step_line(step)) for step in steps])
    print_tree("audit trail", [Tree(_event_line(event)) for event in reversed(events)])


@flows.command(epilog="Example: holdfast flows start 01m7ge8gkb")
@click.argument("flow", metavar="FLOW")
@moving
@printing
def start(flow: str, **options: Any) -> None:
    """Begin: created becomes running."""
    _do("start", flow, **options)


@flows.command(
    epilog="""Example: holdfast flows advance 01m7ge8gkb '{"found": 2}' --step compare"""
)
@click.argument("flow", metavar="FLOW")
@click.argument("patch", metavar="PATCH_JSON", type=JSON)
@click.option(
    "--step", "current_step", metavar="STEP", help="What is being done now. E.g. --step compare"
)
@moving
@printing
def advance(flow: str, patch: Any, **options: Any) -> None:
    """Change the state: an object is merged into it at the top level, anything else takes its
    place."""
    _do("advance", flow, patch, **options)


@flows.command(epilog="Example: holdfast flows wait 01m7ge8gkb --until 2h")
@click.argument("flow", metavar="FLOW")
@click.option(
    "--until", type=MOMENT, metavar="WHEN", help="How long, or until when. E.g. --until 2h"
)
@click.option("--topic", metavar="TOPIC", help="For an event of this topic. E.g. --topic invoice")
@click.option("--correlation", metavar="TEXT", help="And about this. E.g. --correlation 77")
@click.option(
    "--horizon",
    type=DURATION,
    metavar="TIME",
    help="Refuse a time further away than this. E.g. --horizon 30d",
)
@moving
@printing
def wait(flow: str, **options: Any) -> None:
    """Wait for a time, for an event from outside, or, with no option, for `flows resume`."""
    _do("wait", flow, **options)


@flows.command(epilog="Example: holdfast flows resume 01m7ge8gkb")
@click.argument("flow", metavar="FLOW")
@click.argument("patch", metavar="[PATCH_JSON]", type=JSON, required=False)
@moving
@printing
def resume(flow: str, patch: Any, **options: Any) -> None:
    """Go on after a wait, whatever it was for."""
    _do("resume", flow, patch, **options)


@flows.command(epilog="""Example: holdfast flows deliver 01m7ge8gkb invoice 77 '{"paid": true}'""")
@click.argument("flow", metavar="FLOW")
@click.argument("topic", metavar="TOPIC")
@click.argument("correlation", metavar="CORRELATION")
@click.argument("payload", metavar="[PAYLOAD_JSON]", type=JSON, required=False)
@printing
def deliver(flow: str, topic: str, correlation: str, payload: Any) -> None:
    """Resume a flow if it waits for exactly this event."""
    with command_context().opened() as office:
        found = office.engine.flows.deliver(flow, topic, correlation, payload)
    if found is None:
        raise click.ClickException(
            f"flow {flow} does not wait for {topic} {correlation}; `holdfast flows show` tells for"
            " what"
        )
    _tell(found, f"flow {found.id} is {found.status.value}")


@flows.command(epilog="Example: holdfast flows finish 01m7ge8gkb '{\"winner\": 2}'")
@click.argument("flow", metavar="FLOW")
@click.argument("patch", metavar="[PATCH_JSON]", type=JSON, required=False)
@moving
@printing
def finish(flow: str, patch: Any, **options: Any) -> None:
    """End well, with a last change of the state."""
    _do("finish", flow, patch, **options)


@flows.command(epilog="Example: holdfast flows fail 01m7ge8gkb 'no vendor answered'")
@click.argument("flow", metavar="FLOW")
@click.argument("reason", metavar="REASON")
@moving
@printing
def fail(flow: str, reason: str, **options: Any) -> None:
    """End badly."""
    _do("fail", flow, reason, **options)


@flows.command(epilog="Example: holdfast flows cancel 01m7ge8gkb")
@click.argument("flow", metavar="FLOW")
@click.option(
    "--request",
    "only_ask",
    is_flag=True,
    help="Only ask whoever drives it; nothing else can happen to it then.",
)
@moving
@printing
def cancel(flow: str, only_ask: bool, **options: Any) -> None:
    """End a flow at once, or ask for it."""
    _do("request_cancel" if only_ask else "cancel", flow, **options)


@flows.command(
    epilog="""Example: holdfast flows observe 01m7ge8gkb job-1 succeeded --result '{"price": 10}'"""
)
@click.argument("flow", metavar="FLOW")
@click.argument("run_id", metavar="NAME")
@click.argument(
    "status", metavar="STATUS", type=click.Choice([status.value for status in FlowStepStatus])
)
@click.option(
    "--task", required=True, metavar="TEXT", help="What is being done. E.g. --task 'ask vendor 1'"
)
@click.option(
    "--result", type=JSON, metavar="JSON", help="""What it came to. E.g. --result '{"price": 10}'"""
)
@click.option("--session", "child_session", metavar="NAME", help="Who does it. E.g. --session s9")
@click.option(
    "--runtime",
    type=click.Choice(["mirrored", "managed"]),
    default="mirrored",
    show_default=True,
    help="Whether it runs elsewhere, or is managed by the flow. E.g. --runtime managed",
)
@click.option(
    "--owner", metavar="OWNER", help="Only if the flow belongs to this owner. E.g. --owner agent:7"
)
@printing
def observe(flow: str, run_id: str, status: str, **options: Any) -> None:
    """Note how a piece of the work stands that runs elsewhere as NAME: pending, running, succeeded,
    failed or cancelled."""
    with command_context().opened() as office:
        step = office.engine.flows.observe(flow, run_id, options.pop("task"), status, **options)
    if command_context().as_json:
        print_json(step)
    else:
        print(f"flow {flow}: {_step_line(step)}")


@flows.command(epilog="Example: holdfast flows wake")
@printing
def wake() -> None:
    """Resume what is due, and cancel what waits and was asked to stop, where no worker is there to
    do it."""
    resumed = cancelled = 0
    with command_context().opened() as office:
        more = True
        while more:
            woken = office.engine.flows.wake()
            resumed, cancelled, more = (
                resumed + woken.resumed,
                cancelled + woken.cancelled,
                woken.more,
            )
    if command_context().as_json:
        print_json({"resumed": resumed, "cancelled": cancelled})
    else:
        print(f"{resumed} flows resumed, {cancelled} cancelled")


@flows.command(epilog="Example: holdfast flows prune --older-than 30d")
@click.option(
    "--older-than",
    required=True,
    metavar="TIME",
    help="Ended at least this long ago. E.g. --older-than 30d",
)
@printing
def prune(older_than: str) -> None:
    """Delete flows that ended long ago, with their steps and audit trails."""
    with command_context().opened() as office:
        gone = office.engine.flows.prune(older_than)
    if command_context().as_json:
        print_json({"flows": gone})
    else:
        print(f"{gone} flows deleted")


def _do(verb: str, flow: str, *args: Any, **options: Any) -> None:
    with command_context().opened() as office:
        found: Flow = getattr(office.engine.flows, verb)(flow, *args, **options)
    _tell(found, f"flow {found.id} is {_status(found)}, revision {found.revision}")


def _tell(flow: Flow, line: str) -> None:
    if command_context().as_json:
        print_json(flow)
    else:
        print(line)


def _as_dict(flow: Flow) -> dict[str, Any]:
    return msgspec.structs.asdict(flow)


def _status(flow: Flow) -> str:
    asked = flow.cancel_requested and flow.status is not FlowStatus.CANCELLED
    return f"{flow.status.value} (asked to stop)" if asked else flow.status.value


def _wait(flow: Flow) -> str:
    wait = flow.wait
    if wait is None:
        return ""
    if wait["kind"] == "timer":
        return _when(wait["at"])
    return (
        f"{wait['topic']} {wait['correlation']}"
        if wait["kind"] == "external_event"
        else "somebody's resume"
    )


def _step_line(step: FlowStep) -> str:
    return f"{step.run_id}  {step.status.value}  {step.task}  {short(_json(step.result))}".rstrip()


def _event_line(event: FlowEvent) -> str:
    return (
        f"{_when(event.at)}  {event.kind} "
        f" {short(_json(event.payload), 100) if event.payload else ''}".rstrip()
    )


def _when(time: Any) -> str:
    return str(time.strftime("%Y-%m-%d %H:%M:%S"))


def _json(value: Any) -> str:
    return "" if value is None else msgspec.json.encode(value).decode()
