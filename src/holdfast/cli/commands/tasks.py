"""``holdfast tasks``: work for programs that are no Python functions, leased from a shell; and what
operators do to leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from holdfast.cli.context import OpenDatabase, command_context, printing
from holdfast.cli.output import iso, print_json, short
from holdfast.cli.params import DURATION, JSON, MOMENT, TAG
from holdfast.connect.lease import Lease
from holdfast.connect.tasks import TaskWorker
from holdfast.core.streams.model import StreamMode
from holdfast.core.tasks.policy import FailureKind
from holdfast.core.tasks.suspension import ON_TIMEOUT
from holdfast.errors import HoldfastError
from holdfast.service.tasks.lease_state import Deferred, Retried, RunEnded

EPILOG = """\b
Examples:
  holdfast tasks submit render '{"size": 3}' --retries 3 --timeout 10m
  holdfast tasks claim --workflow render --wait 30s --json
  holdfast tasks complete LEASE '{"url": "x"}'
  holdfast tasks fail LEASE transient 'no disk'
  holdfast tasks progress LEASE 40 'half of it'
A LEASE is what `claim` prints: it names the run, its generation and the session."""


_OF_POLICY = {
    "retries": "retries",
    "retry_delay": "delay",
    "timeout": "timeout",
    "reclaims": "reclaims",
}


@click.group(short_help="Lease runs to programs that are no Python functions.", epilog=EPILOG)
def tasks() -> None:
    """Lease runs, work on them with any program, and say what came of it."""


@tasks.command(
    epilog="""Example: holdfast tasks submit render '{"size": 3}' --lane gpu --retries 3"""
)
@click.argument("workflow", metavar="NAME")
@click.argument("values", metavar="[ARGS_JSON]...", type=JSON, nargs=-1)
@click.option("--lane", metavar="LANE", help="In which lane. E.g. --lane gpu")
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    metavar="WORD",
    help="What its holder must offer. E.g. --capability cuda",
)
@click.option(
    "--priority", type=int, metavar="N", help="A higher one goes first. E.g. --priority 5"
)
@click.option(
    "--key", metavar="KEY", help="Start it once: the same key again starts nothing. E.g. --key 77"
)
@click.option(
    "--retries",
    type=click.IntRange(0),
    metavar="N",
    help="How often a failed attempt is made again. E.g. --retries 3",
)
@click.option(
    "--retry-delay",
    type=DURATION,
    metavar="TIME",
    help="How long until the first of them. E.g. --retry-delay 30s",
)
@click.option(
    "--timeout",
    type=DURATION,
    metavar="TIME",
    help="How long an attempt may take. E.g. --timeout 10m",
)
@click.option(
    "--reclaims",
    type=click.IntRange(0),
    metavar="N",
    help="How often a lost attempt is made again. E.g. --reclaims 5",
)
@click.option(
    "--delay",
    type=MOMENT,
    metavar="WHEN",
    help="Do not begin before. E.g. --delay 2h or 2026-12-24T18:00",
)
@click.option(
    "--deadline",
    type=MOMENT,
    metavar="WHEN",
    help="Stop it if it has not ended by then. E.g. --deadline 1d",
)
@click.option(
    "--tag",
    "tags",
    type=TAG,
    metavar="NAME=VALUE",
    multiple=True,
    help="Label it. E.g. --tag customer=7",
)
@printing
def submit(
    workflow: str,
    values: tuple[Any, ...],
    capabilities: tuple[str, ...],
    tags: tuple[tuple[str, str], ...],
    **given: Any,
) -> None:
    """Start a run that whoever serves NAME can lease, and print its id."""
    said = {name: value for name, value in given.items() if value is not None}
    policy = {name: said.pop(option) for option, name in _OF_POLICY.items() if option in said}
    with command_context().opened(create=True) as office:
        wanted: dict[str, Any] = {"capabilities": list(capabilities)} if capabilities else {}
        run = office.engine.start(
            workflow, *values, policy=policy, tags=dict(tags), **said, **wanted
        )
        _tell({"id": run.id, "status": run.status.value}, run.id)


@tasks.command(epilog="Example: holdfast tasks claim --workflow render --limit 5 --wait 30s --json")
@click.option(
    "--workflow",
    "workflows",
    multiple=True,
    metavar="NAME",
    help="Only runs of this workflow; may be repeated. E.g. --workflow render",
)
@click.option(
    "--lane",
    "lanes",
    multiple=True,
    metavar="LANE",
    help="Only runs of this lane; may be repeated. E.g. --lane gpu",
)
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    metavar="WORD",
    help="What you offer; may be repeated. E.g. --capability cuda",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="How many at most. E.g. --limit 5",
)
@click.option(
    "--wait", type=DURATION, metavar="TIME", help="Wait that long for the first. E.g. --wait 30s"
)
@click.option(
    "--ttl",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long they last. E.g. --ttl 2m",
)
@click.option("--worker", default="", metavar="NAME", help="Who holds them. E.g. --worker render-7")
@printing
def claim(limit: int, wait: str | None, ttl: str, worker: str, **offered: tuple[str, ...]) -> None:
    """Lease runs and print a lease for each, best first."""
    served: dict[str, Any] = {
        name: list(values) or None for name, values in offered.items() if name != "capabilities"
    }
    with command_context().opened() as office:
        served |= {"capabilities": offered["capabilities"], "claims": wait is not None}
        leases: TaskWorker = office.engine.leases(worker, ttl=ttl, **served)
        found = leases.claim(limit, wait=wait)
        if not found:
            leases.close()
        elif wait is not None:
            leases.rest()  # nobody is here any more who would claim
        if command_context().as_json:
            print_json([_as_data(lease) for lease in found])
            return
        for lease in found:
            print(f"{lease.proof}  {lease.run.workflow}  {short(lease.run.input)}")


@tasks.command(epilog="Example: holdfast tasks renew LEASE --ttl 60s")
@click.argument("lease", metavar="LEASE")
@click.option(
    "--ttl",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long it lasts from now on. E.g. --ttl 2m",
)
@printing
def renew(lease: str, ttl: str) -> None:
    """Keep a lease, and all that were claimed with it; hear whether the run shall stop."""
    with command_context().opened() as office:
        held = office.engine.lease(lease, ttl=ttl)
        held.renew()
        reason = held.cancel_reason
        line = (
            "renewed"
            if reason is None
            else f"renewed, but the run shall stop: {reason}; `holdfast tasks cancel` does so"
        )
        _tell({"lease": lease, "renewed": True, "cancel_reason": reason}, line)


@tasks.command(epilog="Example: holdfast tasks progress LEASE 40 'half of it'")
@click.argument("lease", metavar="LEASE")
@click.argument("percent", metavar="PERCENT", type=click.FloatRange(0, 100))
@click.argument("message", metavar="[MESSAGE]", required=False)
@printing
def progress(lease: str, percent: float, message: str | None) -> None:
    """Say how far the run is; `holdfast show` tells it."""
    with command_context().opened() as office:
        held = office.engine.lease(lease)
        held.progress(percent, message)
        _tell(
            {"run": held.run.id, "percent": percent, "message": message},
            f"run {held.run.id} is at {percent:g} %",
        )


@tasks.command(
    epilog="""Example: holdfast tasks emit LEASE '{"pages": 3}' '{"pages": 4}' --name pages"""
)
@click.argument("lease", metavar="LEASE")
@click.argument("values", metavar="VALUE_JSON...", type=JSON, nargs=-1, required=True)
@click.option("--name", metavar="NAME", help="What they are called. E.g. --name pages")
@click.option(
    "--kind",
    type=click.Choice(["event", "stdout", "stderr"]),
    default="event",
    show_default=True,
    help="What they are; stdout and stderr take texts. E.g. --kind stdout",
)
@click.option(
    "--mode",
    type=click.Choice([mode.value for mode in StreamMode]),
    default="durable",
    show_default=True,
    help="How well they are kept; a summary takes patches. E.g. --mode summary",
)
@click.option(
    "--keep", type=click.IntRange(1), metavar="N", help="Keep only the last ones. E.g. --keep 100"
)
@click.option(
    "--place",
    type=click.IntRange(0),
    metavar="N",
    help=(
        "How many frames this attempt has appended before: then a call made again appends nothing."
        " E.g. --place 0"
    ),
)
@printing
def emit(lease: str, values: tuple[Any, ...], **options: Any) -> None:
    """Append frames to the output of the run; `holdfast tail` follows it."""
    with command_context().opened() as office:
        held = office.engine.lease(lease)
        last = held.emit(*values, **options)
        _tell({"run": held.run.id, "seq": last}, f"run {held.run.id} has put out frame {last}")


@tasks.command(epilog="Example: holdfast tasks wait LEASE approval --expires 2d --json")
@click.argument("lease", metavar="LEASE")
@click.argument("name", metavar="NAME")
@click.option(
    "--expires", type=MOMENT, metavar="WHEN", help="Until when it takes signals. E.g. --expires 2d"
)
@printing
def wait(lease: str, name: str, expires: Any) -> None:
    """Open a wait that can be handed out, and print its id and its token: whoever has both may
    deliver signals to it."""
    with command_context().opened() as office:
        found = office.engine.lease(lease).create_wait(name, expires=expires)
        data = {
            "wait": found.id,
            "name": found.name,
            "token": str(found.token),
            "until": iso(found.until),
        }
        _tell(data, f"{found.id}  {found.token!s}")


@tasks.command(epilog="""Example: holdfast tasks complete LEASE '{"url": "x"}'""")
@click.argument("lease", metavar="LEASE")
@click.argument("result", metavar="[RESULT_JSON]", type=JSON, required=False)
@printing
def complete(lease: str, result: Any) -> None:
    """End the run with a result."""
    _end(lease, lambda held: held.complete(result))


@tasks.command(epilog="Example: holdfast tasks fail LEASE transient 'no disk'")
@click.argument("lease", metavar="LEASE")
@click.argument("kind", type=click.Choice([kind.value for kind in FailureKind]), metavar="KIND")
@click.argument("message", metavar="MESSAGE")
@click.option(
    "--details",
    type=JSON,
    metavar="JSON",
    help="""More about it, an object. E.g. --details '{"code": 28}'""",
)
@printing
def fail(lease: str, kind: str, message: str, details: Any) -> None:
    """Say that the attempt failed. KIND is transient, timeout, infrastructure, permanent or
    cancelled."""
    _end(lease, lambda held: held.fail(kind, message, details))


@tasks.command(epilog="Example: holdfast tasks delay LEASE 5m")
@click.argument("lease", metavar="LEASE")
@click.argument("until", metavar="WHEN", type=MOMENT)
@printing
def delay(lease: str, until: Any) -> None:
    """Put the run off for a time, or until one."""
    _end(lease, lambda held: held.delay(until))


@tasks.command(
    epilog="""\b
Examples:
  holdfast tasks suspend LEASE approved rejected --timeout 2d
  holdfast tasks suspend LEASE --for '{"all_of": ["paid", {"count": 2, "of": ["vote"]}]}'
A condition is a name, or an object: {"all_of": [...]}, {"any_of": [...]},
{"count": N, "of": [...]}, {"signal": NAME, "payload": {...}} or {"wait": ID}."""
)
@click.argument("lease", metavar="LEASE")
@click.argument("signals", metavar="[SIGNAL]...", nargs=-1)
@click.option(
    "--for",
    "condition",
    type=JSON,
    metavar="JSON",
    help="""Wait for a condition. E.g. --for '{"all_of": ["a", "b"]}'""",
)
@click.option(
    "--timeout", type=MOMENT, metavar="WHEN", help="Wait no longer than that. E.g. --timeout 2d"
)
@click.option(
    "--on-timeout",
    type=click.Choice(ON_TIMEOUT),
    default="continue",
    show_default=True,
    help="What happens then. E.g. --on-timeout fail",
)
@printing
def suspend(
    lease: str, signals: tuple[str, ...], condition: Any, timeout: Any, on_timeout: str
) -> None:
    """Let the run wait for one of these signals, or for a condition."""
    what = signals if condition is None else (*signals, condition)
    _end(lease, lambda held: held.suspend(*what, timeout=timeout, on_timeout=on_timeout))


@tasks.command(epilog="Example: holdfast tasks cancel LEASE 'not needed any more'")
@click.argument("lease", metavar="LEASE")
@click.argument("reason", metavar="[REASON]", default="cancelled by its holder")
@printing
def cancel(lease: str, reason: str) -> None:
    """Stop the run, as its holder."""
    _end(lease, lambda held: held.cancel(reason))


@tasks.command(epilog="Example: holdfast tasks reclaim last --capability cuda")
@click.argument("run", metavar="RUN")
@click.option(
    "--capability",
    "capabilities",
    multiple=True,
    metavar="WORD",
    help="What you offer. E.g. --capability cuda",
)
@click.option(
    "--ttl",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long it lasts. E.g. --ttl 2m",
)
@click.option("--worker", default="", metavar="NAME", help="Who holds it. E.g. --worker render-7")
@printing
def reclaim(run: str, capabilities: tuple[str, ...], ttl: str, worker: str) -> None:
    """Lease this very run, whose holder is gone; past its limit of reclaims it fails instead."""
    with command_context().opened() as office:
        found = office.find(run, mine=True)
        offer: dict[str, Any] = {
            "capabilities": capabilities,
            "workflows": [found.workflow],
            "claims": False,
        }
        leases: TaskWorker = office.engine.leases(worker, ttl=ttl, **offer)
        try:
            answer = leases.reclaim(found.id)
        except HoldfastError:
            leases.close()
            raise
        if isinstance(answer, RunEnded):
            leases.close()
            _tell(
                {"run": found.id, "status": answer.status.value},
                f"run {found.id} is {answer.status.value}",
            )
        else:
            _tell(
                _as_data(answer),
                f"{answer.proof}  {answer.run.workflow}  {short(answer.run.input)}",
            )


@tasks.command(epilog="Example: holdfast tasks revoke last --reason 'its machine hangs'")
@click.argument("run", metavar="RUN")
@click.option(
    "--reason",
    default="revoked by an operator",
    show_default=True,
    metavar="TEXT",
    help="Why. E.g. --reason 'it hangs'",
)
@printing
def revoke(run: str, reason: str) -> None:
    """Take a run from whoever holds it; its late writes are refused."""
    with command_context().opened() as office:
        found = office.find(run, mine=True)
        held = office.engine.revoke(found.id, reason)
        _tell(
            {"run": found.id, "revoked": held},
            f"run {found.id} was taken back" if held else f"nobody holds run {found.id}",
        )


@tasks.command(epilog="Example: holdfast tasks priority last 5")
@click.argument("run", metavar="RUN")
@click.argument("priority", metavar="N", type=int)
@printing
def priority(run: str, priority: int) -> None:
    """Change the priority of a run."""
    with command_context().opened() as office:
        found = office.find(run, mine=True)
        old = office.engine.prioritise(found.id, priority)
        _tell(
            {"run": found.id, "old": old, "new": priority},
            f"run {found.id} has priority {priority}, was {old}",
        )


@tasks.command(epilog="Example: holdfast tasks override last 'done by hand' --result '7'")
@click.argument("run", metavar="RUN")
@click.argument("reason", metavar="REASON")
@click.option("--result", type=JSON, metavar="JSON", help="What it comes to. E.g. --result '7'")
@click.option("--failed", is_flag=True, help="It failed.")
@printing
def override(run: str, reason: str, result: Any, failed: bool) -> None:
    """End a run as you say, whoever holds it."""
    with command_context().opened() as office:
        found = office.find(run, mine=True)
        status = office.engine.override(found.id, reason, result=result, failed=failed)
        _tell({"run": found.id, "status": status.value}, f"run {found.id} is {status.value}")


def _end(lease: str, act: Callable[[Lease], RunEnded | Retried | Deferred]) -> None:
    with command_context().opened() as office:
        held = office.engine.lease(lease)
        answer = act(held)
        _tell(_answer(office, held, answer), _line(held, answer))


def _answer(
    office: OpenDatabase, held: Lease, answer: RunEnded | Retried | Deferred
) -> dict[str, Any]:
    until = (
        answer.at
        if isinstance(answer, Retried)
        else answer.until
        if isinstance(answer, Deferred)
        else None
    )
    return {
        "run": held.run.id,
        "status": office.engine.run(held.run.id).status.value,
        "until": iso(until),
    }


def _line(held: Lease, answer: RunEnded | Retried | Deferred) -> str:
    if isinstance(answer, RunEnded):
        return f"run {held.run.id} is {answer.status.value}"
    if isinstance(answer, Retried):
        return f"run {held.run.id} is tried again at {iso(answer.at)}"
    return f"run {held.run.id} is {answer.status.value}" + (
        f" until {iso(answer.until)}" if answer.until else ""
    )


def _as_data(lease: Lease) -> dict[str, Any]:
    run = lease.run
    return {
        "lease": lease.proof,
        "run": run.id,
        "workflow": run.workflow,
        "lane": run.lane,
        "input": lease.input,
        "attempt": lease.attempt,
        "generation": run.generation,
        "signals": [
            {
                "name": one.name,
                "payload": msgspec.Raw(one.payload),
                "source": one.source,
                "wait": one.wait_id,
            }
            for one in lease.signals
        ],
        "timed_out": lease.timed_out,
        "released_by": None if lease.waited is None else lease.waited.by,
        "cancel_reason": run.cancel_reason,
    }


def _tell(data: dict[str, Any], line: str) -> None:
    if command_context().as_json:
        print_json(data)
    else:
        print(line)
