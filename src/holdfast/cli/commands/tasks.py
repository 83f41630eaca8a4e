"""``holdfast tasks``: submit tasks, lease runs to programs in any language, and override leases."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.commands.lease_output import (
    CAPABILITIES,
    TTL,
    WORKER,
    end_lease,
    lease_view,
    report,
)
from holdfast.cli.commands.task_operators import override, priority, reclaim, revoke
from holdfast.cli.commands.task_output import emit, progress
from holdfast.cli.commands.task_trees import attempts, children, spend, start, wait_children
from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json
from holdfast.cli.params import DURATION, JSON, MOMENT, TAGS, many
from holdfast.core.conditions.model import ON_TIMEOUT
from holdfast.core.tasks.policy import FailureKind
from holdfast.views.text import payload

EPILOG = """\b
Examples:
  holdfast tasks submit render '{"size": 3}' --retries 3 --timeout 10m
  holdfast tasks claim --workflow render --wait 30s --json
  holdfast tasks complete LEASE '{"url": "x"}'
  holdfast tasks fail LEASE transient 'no disk'
  holdfast tasks progress LEASE 40 'half of it'
LEASE is the text that `claim` prints: it names the run, its generation and the session."""


_POLICY_OPTIONS = {
    "retries": "retries",
    "retry_delay": "delay",
    "timeout": "timeout",
    "reclaims": "reclaims",
}


@click.group(short_help="Lease runs to programs in any language.", epilog=EPILOG)
def tasks() -> None:
    """Lease runs, execute them with any program, and report their results."""


@tasks.command(
    epilog="""Example: holdfast tasks submit render '{"size": 3}' --lane gpu --retries 3"""
)
@click.argument("workflow", metavar="NAME")
@click.argument("values", metavar="[ARGS_JSON]...", type=JSON, nargs=-1)
@click.option("--lane", metavar="LANE", help="The lane of the run. E.g. --lane gpu")
@many(
    "--capability",
    "capabilities",
    metavar="A,B",
    help="The capabilities that the holder must offer. E.g. --capability cuda",
)
@click.option(
    "--priority",
    type=int,
    metavar="N",
    help="Runs with a higher priority start first. E.g. --priority 5",
)
@click.option(
    "--key",
    metavar="KEY",
    help="Start at most one run of this task with this key. E.g. --key 77",
)
@click.option(
    "--retries",
    type=click.IntRange(0),
    metavar="N",
    help="The maximum number of retries after failed attempts. E.g. --retries 3",
)
@click.option(
    "--retry-delay",
    type=DURATION,
    metavar="TIME",
    help="The delay before the first retry. E.g. --retry-delay 30s",
)
@click.option(
    "--timeout",
    type=DURATION,
    metavar="TIME",
    help="The maximum duration of an attempt. E.g. --timeout 10m",
)
@click.option(
    "--reclaims",
    type=click.IntRange(0),
    metavar="N",
    help="The maximum number of new attempts after lost leases. E.g. --reclaims 5",
)
@click.option(
    "--delay",
    type=MOMENT,
    metavar="WHEN",
    help="Start after a duration or at a time. E.g. --delay 2h or 2026-12-24T18:00",
)
@click.option(
    "--deadline",
    type=MOMENT,
    metavar="WHEN",
    help="Cancel the run if it has not ended by then. E.g. --deadline 1d",
)
@many(
    "--tag",
    "tags",
    type=TAGS,
    metavar="NAME=VALUE",
    help="The tags of the run. E.g. --tag customer=7",
)
@printing
def submit(
    workflow: str,
    values: tuple[Any, ...],
    capabilities: list[str],
    tags: list[tuple[str, str]],
    **options: Any,
) -> None:
    """Start a run of the task NAME, which workers that serve it can lease, and print its id. If the
    key belongs to an earlier run, that run is the answer: with --json, `created` is false."""
    start_options = {name: value for name, value in options.items() if value is not None}
    policy = {
        name: start_options.pop(option)
        for option, name in _POLICY_OPTIONS.items()
        if option in start_options
    }
    if capabilities:
        start_options["capabilities"] = capabilities
    with command_context().opened(create=True) as database:
        answer = database.engine.tasks.submit(
            workflow, *values, policy=policy, tags=dict(tags), **start_options
        )
        run = answer.run
        data = {"id": run.id, "created": answer.created, "status": run.status.value}
        report(data, run.id)


@tasks.command(epilog="Example: holdfast tasks claim --workflow render --limit 5 --wait 30s --json")
@many(
    "--workflow",
    "workflows",
    metavar="A,B",
    help="Only runs of these workflows. E.g. --workflow render",
)
@many(
    "--lane",
    "lanes",
    metavar="A,B",
    help="Only runs of these lanes. E.g. --lane gpu",
)
@CAPABILITIES
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="The maximum number of runs. E.g. --limit 5",
)
@click.option(
    "--wait", type=DURATION, metavar="TIME", help="How long to wait for a run. E.g. --wait 30s"
)
@TTL
@WORKER
@printing
def claim(limit: int, wait: str | None, ttl: str, worker: str, **offer: list[str]) -> None:
    """Lease runs and print one lease per run, in the order of the queue."""
    options: dict[str, Any] = {
        name: values or None for name, values in offer.items() if name != "capabilities"
    }
    options["capabilities"] = offer["capabilities"]
    with command_context().opened() as database:
        leases = database.engine.tasks.claim(
            limit, worker=worker, ttl=ttl, wait=wait, renew=False, **options
        )
        if command_context().as_json:
            print_json([lease_view(lease) for lease in leases])
            return
        for lease in leases:
            print(f"{lease.proof}  {lease.run.workflow}  {payload(lease.input)}")


@tasks.command(epilog="Example: holdfast tasks renew LEASE --ttl 60s")
@click.argument("lease", metavar="LEASE")
@TTL
@printing
def renew(lease: str, ttl: str) -> None:
    """Renew a lease and all leases that were claimed with it; report a requested cancellation."""
    with command_context().opened() as database:
        held = database.engine.tasks.lease(lease, ttl=ttl)
        held.renew()
        reason = held.cancel_reason
        line = "renewed"
        if reason is not None:
            line += (
                f", but cancellation was requested: {reason}; stop the work and call `holdfast"
                " tasks cancel`"
            )
        report({"lease": lease, "renewed": True, "cancel_reason": reason}, line)


@tasks.command(epilog="Example: holdfast tasks wait LEASE approval --expires 2d --json")
@click.argument("lease", metavar="LEASE")
@click.argument("name", metavar="NAME")
@click.option(
    "--expires",
    type=MOMENT,
    metavar="WHEN",
    help="Until when the wait accepts signals. E.g. --expires 2d",
)
@printing
def wait(lease: str, name: str, expires: Any) -> None:
    """Create a wait for outside programs, and print its id and its token. A program that has both
    may send signals to the wait."""
    with command_context().opened() as database:
        created = database.engine.tasks.lease(lease).create_wait(name, expires=expires)
        data = {
            "wait": created.id,
            "name": created.name,
            "token": str(created.token),
            "until": created.until,
        }
        report(data, f"{created.id}  {created.token!s}")


@tasks.command(epilog="""Example: holdfast tasks complete LEASE '{"url": "x"}'""")
@click.argument("lease", metavar="LEASE")
@click.argument("result", metavar="[RESULT_JSON]", type=JSON, required=False)
@printing
def complete(lease: str, result: Any) -> None:
    """Complete the run with a result."""
    end_lease(lease, lambda held: held.complete(result))


@tasks.command(epilog="Example: holdfast tasks fail LEASE transient 'no disk'")
@click.argument("lease", metavar="LEASE")
@click.argument("kind", type=click.Choice([kind.value for kind in FailureKind]), metavar="KIND")
@click.argument("message", metavar="MESSAGE")
@click.option(
    "--details",
    type=JSON,
    metavar="JSON",
    help="""Details of the error, a JSON object. E.g. --details '{"code": 28}'""",
)
@printing
def fail(lease: str, kind: str, message: str, details: Any) -> None:
    """Report that the attempt failed. KIND is transient, timeout, infrastructure, permanent or
    cancelled."""
    end_lease(lease, lambda held: held.fail(kind, message, details))


@tasks.command(epilog="Example: holdfast tasks delay LEASE 5m")
@click.argument("lease", metavar="LEASE")
@click.argument("until", metavar="WHEN", type=MOMENT)
@printing
def delay(lease: str, until: Any) -> None:
    """Release the lease, and continue the run after a duration or at a time."""
    end_lease(lease, lambda held: held.delay(until))


@tasks.command(
    epilog="""\b
Examples:
  holdfast tasks suspend LEASE approved rejected --timeout 2d
  holdfast tasks suspend LEASE --for '{"all_of": ["paid", {"count": 2, "of": ["vote"]}]}'
  holdfast tasks suspend LEASE --any-signal --reason 'tool result' --by agent-7
  holdfast tasks suspend LEASE --reason 'manual review'   until `holdfast waits release`
A condition is a name, or an object: {"all_of": [...]}, {"any_of": [...]},
{"count": N, "of": [...]}, {"signal": NAME, "payload": {...}}, {"any_signal": true} or
{"wait": ID}."""
)
@click.argument("lease", metavar="LEASE")
@click.argument("signals", metavar="[SIGNAL]...", nargs=-1)
@click.option(
    "--for",
    "condition",
    type=JSON,
    metavar="JSON",
    help="""A condition to wait for. E.g. --for '{"all_of": ["a", "b"]}'""",
)
@click.option(
    "--timeout", type=MOMENT, metavar="WHEN", help="The maximum time to wait. E.g. --timeout 2d"
)
@click.option(
    "--on-timeout",
    type=click.Choice(ON_TIMEOUT),
    default="continue",
    show_default=True,
    help="What happens after the timeout. E.g. --on-timeout fail",
)
@click.option("--any-signal", is_flag=True, help="Any signal to the run ends the wait.")
@click.option(
    "--reason", metavar="TEXT", help="Why the run is suspended. E.g. --reason 'manual review'"
)
@click.option("--by", metavar="NAME", help="Who asked for it. E.g. --by ann")
@click.option(
    "--resume-delay",
    type=DURATION,
    metavar="DURATION",
    help="The time between the last awaited signal and the next lease. E.g. --resume-delay 5m",
)
@printing
def suspend(
    lease: str, signals: tuple[str, ...], condition: Any, any_signal: bool, **options: Any
) -> None:
    """Release the lease, and let the run wait for one of these signals or for a condition; without
    any, for an operator."""
    awaited: tuple[Any, ...] = signals
    if condition is not None:
        awaited = (*awaited, condition)
    if any_signal:
        awaited = (*awaited, {"any_signal": True})
    end_lease(lease, lambda held: held.suspend(*awaited, **options))


@tasks.command(epilog="Example: holdfast tasks cancel LEASE 'not needed any more'")
@click.argument("lease", metavar="LEASE")
@click.argument("reason", metavar="[REASON]", default="cancelled by its holder")
@printing
def cancel(lease: str, reason: str) -> None:
    """Cancel the run, as its holder."""
    end_lease(lease, lambda held: held.cancel(reason))


for command in (
    attempts,
    children,
    emit,
    override,
    priority,
    progress,
    reclaim,
    revoke,
    spend,
    start,
    wait_children,
):
    tasks.add_command(command)
