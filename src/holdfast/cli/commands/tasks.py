"""``holdfast tasks``: submit tasks, lease runs to programs in any language, and override leases."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.commands.lease_output import end_lease, lease_view, report
from holdfast.cli.commands.task_trees import attempts, children, spend, start, wait_children
from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json
from holdfast.cli.params import DURATION, JSON, MOMENT, TAGS, many
from holdfast.connect.blocking.tasks import TaskWorker
from holdfast.core.conditions.model import ON_TIMEOUT
from holdfast.core.streams.model import StreamMode
from holdfast.core.streams.rules import null
from holdfast.core.tasks.policy import FailureKind
from holdfast.errors import HoldfastError
from holdfast.service.tasks.lease_state import RunEnded
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
@many(
    "--capability",
    "capabilities",
    metavar="A,B",
    help="The capabilities that you offer. E.g. --capability cuda",
)
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
@click.option(
    "--ttl",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long the leases last. E.g. --ttl 2m",
)
@click.option(
    "--worker", default="", metavar="NAME", help="The name of the holder. E.g. --worker render-7"
)
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
@click.option(
    "--ttl",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long the lease lasts from now on. E.g. --ttl 2m",
)
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


@tasks.command(epilog="Example: holdfast tasks progress LEASE 40 'half of it'")
@click.argument("lease", metavar="LEASE")
@click.argument("percent", metavar="PERCENT", type=click.FloatRange(0, 100))
@click.argument("message", metavar="[MESSAGE]", required=False)
@printing
def progress(lease: str, percent: float, message: str | None) -> None:
    """Report the progress of the run; `holdfast show` displays it."""
    with command_context().opened() as database:
        held = database.engine.tasks.lease(lease)
        held.progress(percent, message)
        report(
            {"run": held.run_id, "percent": percent, "message": message},
            f"run {held.run_id} is at {percent:g} %",
        )


@tasks.command(
    epilog="""\b
Examples:
  holdfast tasks emit LEASE '{"pages": 3}' '{"pages": 4}' --name pages
  holdfast tasks emit LEASE '{"owner": null}' --mode summary   delete the field owner
  holdfast tasks emit LEASE --mode summary --null owner        set the field owner to null"""
)
@click.argument("lease", metavar="LEASE")
@click.argument("values", metavar="VALUE_JSON...", type=JSON, nargs=-1)
@click.option("--name", metavar="NAME", help="The name of the frames. E.g. --name pages")
@click.option(
    "--kind",
    type=click.Choice(["event", "stdout", "stderr"]),
    default="event",
    show_default=True,
    help="The kind of the frames; stdout and stderr take strings. E.g. --kind stdout",
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in StreamMode]),
    default="durable",
    show_default=True,
    help="The durability of the frames; a summary takes patches. E.g. --mode summary",
)
@click.option(
    "--null",
    "nulls",
    multiple=True,
    metavar="FIELD",
    help=(
        "Set a field of the summary to null; in a patch, null deletes a field. A nested field is a"
        " JSON pointer. E.g. --null /files/a.txt"
    ),
)
@click.option(
    "--keep",
    type=click.IntRange(1),
    metavar="N",
    help="Keep only the last N frames. E.g. --keep 100",
)
@click.option(
    "--place",
    type=click.IntRange(0),
    metavar="N",
    help=(
        "The number of frames that this attempt has appended before: a repeated call then appends"
        " nothing. E.g. --place 0"
    ),
)
@printing
def emit(lease: str, values: tuple[Any, ...], nulls: tuple[str, ...], **options: Any) -> None:
    """Append frames to the output of the run; `holdfast tail` follows it."""
    if nulls:
        if options["mode"] != StreamMode.SUMMARY:
            raise click.UsageError("--null sets fields of a summary: add --mode summary")
        patch: dict[str, Any] = {}
        for field in nulls:
            _set_null(patch, field)
        values = (*values, patch)
    if not values:
        raise click.UsageError("give at least one value to append")
    with command_context().opened() as database:
        held = database.engine.tasks.lease(lease)
        emitted = held.emit(*values, **options)
        data = {
            "run": held.run_id,
            "seq": emitted.seq,
            "frames": emitted.frames,
            "version": emitted.version,
        }
        report(data, f"run {held.run_id} has emitted frame {emitted.seq}")


def _set_null(patch: dict[str, Any], field: str) -> None:
    """Set a field of a patch to null: a name, or a JSON pointer (RFC 6901) that begins with a
    slash."""
    path = [field]
    if field.startswith("/"):
        path = [name.replace("~1", "/").replace("~0", "~") for name in field[1:].split("/")]
    for name in path[:-1]:
        inner: Any = patch.setdefault(name, {})
        if inner is null:
            raise click.UsageError(f"--null {field}: a part of the path is set to null itself")
        patch = inner
    patch[path[-1]] = null


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


@tasks.command(epilog="Example: holdfast tasks reclaim last --capability cuda")
@click.argument("run", metavar="RUN")
@many(
    "--capability",
    "capabilities",
    metavar="A,B",
    help="The capabilities that you offer. E.g. --capability cuda",
)
@click.option(
    "--ttl",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long the lease lasts. E.g. --ttl 2m",
)
@click.option(
    "--worker", default="", metavar="NAME", help="The name of the holder. E.g. --worker render-7"
)
@printing
def reclaim(run: str, capabilities: list[str], ttl: str, worker: str) -> None:
    """Lease this run, whose holder is gone. A run that has reached its limit of reclaims fails."""
    with command_context().opened() as database:
        record = database.find(run, mine=True)
        offer: dict[str, Any] = {
            "capabilities": capabilities,
            "workflows": [record.workflow],
            "claims": False,
            "renew": False,
        }
        task_worker: TaskWorker = database.engine.tasks.worker(worker, ttl=ttl, **offer)
        try:
            answer = task_worker.reclaim(record.id)
        except HoldfastError:
            task_worker.close()
            raise
        if isinstance(answer, RunEnded):
            task_worker.close()
            report(
                {"run": record.id, "status": answer.status.value},
                f"run {record.id} is {answer.status.value}",
            )
        else:
            report(
                lease_view(answer),
                f"{answer.proof}  {answer.run.workflow}  {payload(answer.input)}",
            )


@tasks.command(epilog="Example: holdfast tasks revoke last --reason 'its machine hangs'")
@click.argument("run", metavar="RUN")
@click.option(
    "--reason",
    default="revoked by an operator",
    show_default=True,
    metavar="TEXT",
    help="The reason. E.g. --reason 'it hangs'",
)
@printing
def revoke(run: str, reason: str) -> None:
    """Revoke the lease of a run; later writes of its holder are refused."""
    with command_context().opened() as database:
        run_id = database.find(run, mine=True).id
        revoked = database.engine.tasks.revoke(run_id, reason)
        if revoked:
            line = f"the lease of run {run_id} was revoked"
        else:
            line = f"run {run_id} has no holder: nothing was revoked"
        report({"run": run_id, "revoked": revoked}, line)


@tasks.command(epilog="Example: holdfast tasks priority last 5")
@click.argument("run", metavar="RUN")
@click.argument("priority", metavar="N", type=int)
@printing
def priority(run: str, priority: int) -> None:
    """Change the priority of a run."""
    with command_context().opened() as database:
        run_id = database.find(run, mine=True).id
        old = database.engine.tasks.prioritise(run_id, priority)
        report(
            {"run": run_id, "old": old, "new": priority},
            f"the priority of run {run_id} is {priority} (was {old})",
        )


@tasks.command(epilog="Example: holdfast tasks override last 'done by hand' --result '7'")
@click.argument("run", metavar="RUN")
@click.argument("reason", metavar="REASON")
@click.option(
    "--result", type=JSON, metavar="JSON", help="The result of the run. E.g. --result '7'"
)
@click.option("--failed", is_flag=True, help="End the run as failed.")
@printing
def override(run: str, reason: str, result: Any, failed: bool) -> None:
    """End a run as completed or failed, whether it has a holder or not."""
    with command_context().opened() as database:
        run_id = database.find(run, mine=True).id
        status = database.engine.tasks.override(run_id, reason, result=result, failed=failed)
        report({"run": run_id, "status": status.value}, f"run {run_id} is {status.value}")


for command in (attempts, children, spend, start, wait_children):
    tasks.add_command(command)
