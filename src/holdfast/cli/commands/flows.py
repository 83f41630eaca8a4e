"""``holdfast flows``: list, create and drive managed flows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from holdfast.cli.context import command_context, confirm, deleting, printing
from holdfast.cli.output import print_fields, print_json, print_table, print_tree
from holdfast.cli.paging import items_after, paged, print_page
from holdfast.cli.params import DURATION, JSON, MOMENT
from holdfast.core.flows.model import FlowStatus, FlowStepStatus
from holdfast.views.flows import FlowEventView, FlowStepView, FlowView
from holdfast.views.text import Tree, json_line, short

F = TypeVar("F", bound=Callable[..., Any])

EPILOG = """\b
Examples:
  holdfast flows
  holdfast flows create research 'compare three vendors' --owner agent:7 --start
  holdfast flows wait 01m7ge8gkb --topic invoice --correlation 77
  holdfast flows deliver 01m7ge8gkb invoice 77 '{"paid": true}'
  holdfast flows show 01m7ge8gkb"""


def guarded(command: F) -> F:
    """Add the options that guard a change of a flow: expected revision and owner."""
    for option in (
        click.option(
            "--revision",
            type=int,
            metavar="N",
            help="Only if the flow still has this revision. E.g. --revision 3",
        ),
        click.option(
            "--owner",
            metavar="OWNER",
            help="Only if the flow belongs to this owner. E.g. --owner agent:7",
        ),
    ):
        command = option(command)
    return command


@click.group(short_help="List and drive managed flows.", epilog=EPILOG, invoke_without_command=True)
@click.option("--owner", metavar="OWNER", help="Only flows of this owner. E.g. --owner agent:7")
@click.option(
    "--status",
    type=click.Choice([status.value for status in FlowStatus]),
    help="Only flows with this status. E.g. --status waiting",
)
@paged(limit=50, after="01m7ge8gkb")
@printing
@click.pass_context
def flows(ctx: click.Context, /, after: str | None, limit: int, **filters: Any) -> None:
    """List managed flows, the most recently changed first; the commands below drive them. FLOW is
    the id of a flow."""
    if ctx.invoked_subcommand is not None:
        return
    with command_context().opened() as database:
        listed = database.engine.flows.list(before=after, limit=limit + 1, **filters)
    print_page(listed, limit, lambda flow: flow.id, _print_flows)


def _print_flows(page: Sequence[FlowView]) -> None:
    if not page:
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
        for flow in page
    ]
    print_table(("FLOW", "STATUS", "STEP", "UPDATED", "GOAL"), rows)


@flows.command(
    epilog="Example: holdfast flows create research 'compare three vendors' --owner agent:7 --start"
)
@click.argument("controller", metavar="CONTROLLER")
@click.argument("goal", metavar="GOAL")
@click.option(
    "--owner", required=True, metavar="OWNER", help="The owner of the flow. E.g. --owner agent:7"
)
@click.option(
    "--requester",
    default="",
    metavar="WHO",
    help="The person or program that requested it. E.g. --requester anna",
)
@click.option(
    "--step",
    "current_step",
    default="init",
    show_default=True,
    metavar="STEP",
    help="The first step. E.g. --step search",
)
@click.option(
    "--state",
    type=JSON,
    metavar="JSON",
    help="""The initial state. E.g. --state '{"vendors": 3}'""",
)
@click.option(
    "--id",
    metavar="ID",
    help="The id of the flow; default: a generated one. E.g. --id vendors-2026",
)
@click.option("--start", is_flag=True, help="Start the flow at once.")
@printing
def create(controller: str, goal: str, owner: str, **options: Any) -> None:
    """Create a flow and print its id."""
    with command_context().opened(create=True) as database:
        flow = database.engine.flows.create(controller, goal, owner=owner, **options)
    _report(flow, flow.id)


@flows.command(epilog="Example: holdfast flows show 01m7ge8gkb")
@click.argument("flow", metavar="FLOW")
@printing
def show(flow: str) -> None:
    """Show a flow, its steps and its audit trail."""
    with command_context().opened() as database:
        namespace = database.engine.flows
        record = namespace.get(flow)
        steps = namespace.steps(flow)
        events = namespace.events(flow, limit=1000)
        why = namespace.why(flow)
    if command_context().as_json:
        print_json({**_as_dict(record), "steps": steps, "events": events})
        return
    print_fields(
        [
            ("flow", record.id),
            ("controller", record.controller),
            ("goal", record.goal),
            ("owner", record.owner),
            ("status", _status(record)),
            ("step", record.current_step),
            ("waits for", _wait(record)),
            ("to continue", "" if why.remedy is None else command_context().command(why.remedy)),
            ("state", short(json_line(record.state), 200)),
            ("revision", str(record.revision)),
        ]
    )
    if steps:
        print_tree("steps", [Tree(_step_line(step)) for step in steps])
    print_tree("audit trail", [Tree(_event_line(event)) for event in reversed(events)])


@flows.command(epilog="Example: holdfast flows start 01m7ge8gkb")
@click.argument("flow", metavar="FLOW")
@guarded
@printing
def start(flow: str, **options: Any) -> None:
    """Start a flow: its status changes from created to running."""
    _change("start", flow, **options)


@flows.command(
    epilog="""Example: holdfast flows advance 01m7ge8gkb '{"found": 2}' --step compare"""
)
@click.argument("flow", metavar="FLOW")
@click.argument("patch", metavar="PATCH_JSON", type=JSON)
@click.option(
    "--step", "current_step", metavar="STEP", help="The current step. E.g. --step compare"
)
@guarded
@printing
def advance(flow: str, patch: Any, **options: Any) -> None:
    """Change the state of a flow: an object is merged into it at the top level, any other value
    replaces it."""
    _change("advance", flow, patch, **options)


@flows.command(epilog="Example: holdfast flows set 01m7ge8gkb --goal 'compare two' --revision 3")
@click.argument("flow", metavar="FLOW")
@click.option("--goal", metavar="TEXT", help="Its new goal. E.g. --goal 'compare two vendors'")
@click.option("--new-owner", metavar="OWNER", help="Its new owner. E.g. --new-owner agent:8")
@click.option("--requester", metavar="TEXT", help="Its new requester. E.g. --requester kate")
@click.option("--controller", metavar="TEXT", help="Its new controller. E.g. --controller research")
@guarded
@printing
def set(flow: str, **options: Any) -> None:
    """Change the goal, owner, requester or controller of a flow."""
    _change("set", flow, **options)


@flows.command(epilog="Example: holdfast flows wait 01m7ge8gkb --until 2h")
@click.argument("flow", metavar="FLOW")
@click.option(
    "--until",
    type=MOMENT,
    metavar="WHEN",
    help="Wait for a duration or until a time. E.g. --until 2h",
)
@click.option(
    "--topic", metavar="TOPIC", help="Wait for an event of this topic. E.g. --topic invoice"
)
@click.option(
    "--correlation", metavar="TEXT", help="The correlation of the event. E.g. --correlation 77"
)
@click.option(
    "--horizon",
    type=DURATION,
    metavar="TIME",
    help="Refuse a time that is further away than this. E.g. --horizon 30d",
)
@guarded
@printing
def wait(flow: str, **options: Any) -> None:
    """Let a flow wait for a time, for an external event or, without options, for `flows resume`."""
    _change("wait", flow, **options)


@flows.command(epilog="Example: holdfast flows resume 01m7ge8gkb")
@click.argument("flow", metavar="FLOW")
@click.argument("patch", metavar="[PATCH_JSON]", type=JSON, required=False)
@guarded
@printing
def resume(flow: str, patch: Any, **options: Any) -> None:
    """Resume a waiting flow, whatever it waits for."""
    _change("resume", flow, patch, **options)


@flows.command(epilog="""Example: holdfast flows deliver 01m7ge8gkb invoice 77 '{"paid": true}'""")
@click.argument("flow", metavar="FLOW")
@click.argument("topic", metavar="TOPIC")
@click.argument("correlation", metavar="CORRELATION")
@click.argument("payload", metavar="[PAYLOAD_JSON]", type=JSON, required=False)
@printing
def deliver(flow: str, topic: str, correlation: str, payload: Any) -> None:
    """Deliver an external event: resume the flow if it waits for this topic and correlation."""
    with command_context().opened() as database:
        resumed = database.engine.flows.deliver(flow, topic, correlation, payload)
    if resumed is None:
        raise click.ClickException(
            f"flow {flow} does not wait for {topic} {correlation}; `holdfast flows show {flow}`"
            " shows what it waits for"
        )
    _report(resumed, f"flow {resumed.id} is {resumed.status.value}")


@flows.command(epilog="""Example: holdfast flows deliver-all invoice 77 '{"paid": true}'""")
@click.argument("topic", metavar="TOPIC")
@click.argument("correlation", metavar="CORRELATION")
@click.argument("payload", metavar="[PAYLOAD_JSON]", type=JSON, required=False)
@printing
def deliver_all(topic: str, correlation: str, payload: Any) -> None:
    """Deliver an external event to all flows that wait for this topic and correlation."""
    with command_context().opened() as database:
        resumed = database.engine.flows.deliver_all(topic, correlation, payload)
    if command_context().as_json:
        print_json(resumed)
    else:
        print("\n".join([f"{len(resumed)} flows resumed", *(flow.id for flow in resumed)]))


@flows.command(epilog="Example: holdfast flows finish 01m7ge8gkb '{\"winner\": 2}'")
@click.argument("flow", metavar="FLOW")
@click.argument("patch", metavar="[PATCH_JSON]", type=JSON, required=False)
@guarded
@printing
def finish(flow: str, patch: Any, **options: Any) -> None:
    """Complete a flow, with a last change of its state."""
    _change("finish", flow, patch, **options)


@flows.command(epilog="Example: holdfast flows fail 01m7ge8gkb 'no vendor answered'")
@click.argument("flow", metavar="FLOW")
@click.argument("reason", metavar="REASON")
@guarded
@printing
def fail(flow: str, reason: str, **options: Any) -> None:
    """End a flow as failed, with a reason."""
    _change("fail", flow, reason, **options)


@flows.command(epilog="Example: holdfast flows cancel 01m7ge8gkb")
@click.argument("flow", metavar="FLOW")
@click.option(
    "--request",
    "only_request",
    is_flag=True,
    help="Only request it: the program that drives the flow can then do nothing but cancel it.",
)
@guarded
@printing
def cancel(flow: str, only_request: bool, **options: Any) -> None:
    """Cancel a flow at once, or request its cancellation."""
    _change("request_cancel" if only_request else "cancel", flow, **options)


@flows.command(
    epilog="""Example: holdfast flows observe 01m7ge8gkb job-1 succeeded --result '{"price": 10}'"""
)
@click.argument("flow", metavar="FLOW")
@click.argument("run_id", metavar="NAME")
@click.argument(
    "status", metavar="STATUS", type=click.Choice([status.value for status in FlowStepStatus])
)
@click.option(
    "--task",
    required=True,
    metavar="TEXT",
    help="A description of the work. E.g. --task 'ask vendor 1'",
)
@click.option(
    "--result", type=JSON, metavar="JSON", help="""Its result. E.g. --result '{"price": 10}'"""
)
@click.option(
    "--session",
    "child_session",
    metavar="NAME",
    help="The session that does the work. E.g. --session s9",
)
@click.option(
    "--runtime",
    type=click.Choice(["mirrored", "managed"]),
    default="mirrored",
    show_default=True,
    help="Whether the work runs elsewhere or is managed by the flow. E.g. --runtime managed",
)
@click.option(
    "--owner", metavar="OWNER", help="Only if the flow belongs to this owner. E.g. --owner agent:7"
)
@printing
def observe(flow: str, run_id: str, status: str, **options: Any) -> None:
    """Record the status of a piece of work that runs elsewhere as NAME: pending, running,
    succeeded, failed or cancelled."""
    with command_context().opened() as database:
        step = database.engine.flows.observe(flow, run_id, options.pop("task"), status, **options)
    if command_context().as_json:
        print_json(step)
    else:
        print(f"flow {flow}: {_step_line(step)}")


@flows.command(epilog="Example: holdfast flows steps --run job-1")
@click.argument("flow", metavar="[FLOW]", required=False)
@click.option("--run", "run_id", metavar="NAME", help="Only steps of this name. E.g. --run job-1")
@paged(limit=1000, after="01m7ge8gkb:job-1")
@printing
def steps(flow: str | None, run_id: str | None, limit: int, after: str | None) -> None:
    """List the observed steps of a flow, or those of one NAME in all flows."""
    with command_context().opened() as database:
        observed = database.engine.flows.steps(flow, run_id=run_id)
    print_page(items_after(observed, after, _place, limit), limit, _place, _print_steps)


def _place(step: FlowStepView) -> str:
    return f"{step.flow_id}:{step.run_id}"


def _print_steps(page: Sequence[FlowStepView]) -> None:
    print("\n".join(f"{step.flow_id}  {_step_line(step)}" for step in page) or "no steps")


@flows.command(epilog="""Example: holdfast flows append-event 01m7ge8gkb asked '{"vendor": 1}'""")
@click.argument("flow", metavar="FLOW")
@click.argument("kind", metavar="KIND")
@click.argument("data", metavar="[DATA_JSON]", type=JSON, required=False)
@click.option(
    "--owner", metavar="OWNER", help="Only if the flow belongs to this owner. E.g. --owner agent:7"
)
@printing
def append_event(flow: str, kind: str, data: Any, owner: str | None) -> None:
    """Append a line of your own to the audit trail of a flow."""
    with command_context().opened() as database:
        event = database.engine.flows.append_event(flow, kind, data, owner=owner)
    if command_context().as_json:
        print_json(event)
    else:
        print(f"flow {flow}: {_event_line(event)}")


@flows.command(epilog="Example: holdfast flows wake")
@printing
def wake() -> None:
    """Resume the flows whose time has come, and cancel the waiting flows for which cancellation was
    requested. Workers do this by themselves; use it where no worker runs."""
    resumed = cancelled = 0
    with command_context().opened() as database:
        more = True
        while more:
            woken = database.engine.flows.wake()
            resumed += woken.resumed
            cancelled += woken.cancelled
            more = woken.more
    if command_context().as_json:
        print_json({"resumed": resumed, "cancelled": cancelled})
    else:
        print(f"{resumed} flows resumed, {cancelled} cancelled")


@flows.command(epilog="Example: holdfast flows prune --older-than 30d --yes")
@click.option(
    "--older-than",
    required=True,
    metavar="TIME",
    help="Only flows that ended at least this long ago. E.g. --older-than 30d",
)
@deleting
@printing
def prune(older_than: str, yes: bool) -> None:
    """Delete flows that ended long ago, with their steps and audit trails."""
    with command_context().opened() as database:
        confirm(f"Delete all flows that ended more than {older_than} ago?", yes=yes)
        deleted = database.engine.flows.prune(older_than, by=command_context().person())
    if command_context().as_json:
        print_json({"flows": deleted})
    else:
        print(f"{deleted} flows deleted")


def _change(verb: str, flow: str, *args: Any, **options: Any) -> None:
    """Call a verb of ``engine.flows`` and report the new status and revision of the flow."""
    with command_context().opened() as database:
        changed: FlowView = getattr(database.engine.flows, verb)(flow, *args, **options)
    _report(changed, f"flow {changed.id} is {_status(changed)}, revision {changed.revision}")


def _report(flow: FlowView, line: str) -> None:
    if command_context().as_json:
        print_json(flow)
    else:
        print(line)


def _as_dict(flow: FlowView) -> dict[str, Any]:
    return msgspec.structs.asdict(flow)


def _status(flow: FlowView) -> str:
    if flow.cancel_requested and flow.status is not FlowStatus.CANCELLED:
        return f"{flow.status.value} (cancellation requested)"
    return flow.status.value


def _wait(flow: FlowView) -> str:
    wait = flow.wait
    if wait is None:
        return ""
    if wait["kind"] == "timer":
        return _when(wait["at"])
    if wait["kind"] == "external_event":
        return f"{wait['topic']} {wait['correlation']}"
    return "`flows resume`"


def _step_line(step: FlowStepView) -> str:
    return (
        f"{step.run_id}  {step.status.value}  {step.task}  {short(json_line(step.result))}".rstrip()
    )


def _event_line(event: FlowEventView) -> str:
    payload = short(json_line(event.payload), 100) if event.payload else ""
    return f"{_when(event.at)}  {event.kind}  {payload}".rstrip()


def _when(time: Any) -> str:
    return str(time.strftime("%Y-%m-%d %H:%M:%S"))
