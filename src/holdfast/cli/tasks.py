"""``holdfast tasks``: work for programs that are no Python functions, leased from a shell; and what operators do to leases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from holdfast.cli.desk import Office, desk, printing
from holdfast.cli.output import iso, print_json, short
from holdfast.cli.values import DURATION, JSON, MOMENT
from holdfast.connect.areas.leases import Lease, Leases
from holdfast.core.leases import FailureKind
from holdfast.engine.leases import Ended, Put, Retried

EPILOG = """\b
Examples:
  holdfast tasks submit render '{"size": 3}' --retries 3 --timeout 10m
  holdfast tasks claim --workflow render --wait 30s --json
  holdfast tasks complete LEASE '{"url": "x"}'
  holdfast tasks fail LEASE transient 'no disk'
A LEASE is what `claim` prints: it names the run, its generation and the session."""


@click.group(short_help="Lease runs to programs that are no Python functions.", epilog=EPILOG)
def tasks() -> None:
    """Lease runs, work on them with any program, and say what came of it."""


@tasks.command(epilog="""Example: holdfast tasks submit render '{"size": 3}' --lane gpu --capability cuda --retries 3""")
@click.argument("workflow", metavar="NAME")
@click.argument("values", metavar="[ARGS_JSON]...", type=JSON, nargs=-1)
@click.option("--lane", metavar="LANE", help="In which lane. E.g. --lane gpu")
@click.option(
    "--capability", "capabilities", multiple=True, metavar="WORD", help="What its holder must offer. E.g. --capability cuda"
)
@click.option("--priority", type=int, metavar="N", help="A higher one goes first. E.g. --priority 5")
@click.option("--key", metavar="KEY", help="Start it once: the same key again starts nothing. E.g. --key 77")
@click.option("--retries", type=click.IntRange(0), metavar="N", help="How often a failed attempt is made again. E.g. --retries 3")
@click.option("--timeout", type=DURATION, metavar="TIME", help="How long an attempt may take. E.g. --timeout 10m")
@printing
def submit(workflow: str, values: tuple[Any, ...], capabilities: tuple[str, ...], **given: Any) -> None:
    """Start a run that whoever serves NAME can lease, and print its id."""
    said = {name: value for name, value in given.items() if value is not None}
    policy = {name: said.pop(name) for name in ("retries", "timeout") if name in said}
    with desk().opened() as office:
        wanted = {"capabilities": list(capabilities)} if capabilities else {}
        run = office.engine.start(workflow, *values, policy=policy or None, **said, **wanted)
        _tell({"id": run.id, "status": run.status.value}, run.id)


@tasks.command(epilog="Example: holdfast tasks claim --workflow render --limit 5 --wait 30s --json")
@click.option(
    "--workflow",
    "workflows",
    multiple=True,
    metavar="NAME",
    help="Only runs of this workflow; may be repeated. E.g. --workflow render",
)
@click.option("--lane", "lanes", multiple=True, metavar="LANE", help="Only runs of this lane; may be repeated. E.g. --lane gpu")
@click.option(
    "--capability", "capabilities", multiple=True, metavar="WORD", help="What you offer; may be repeated. E.g. --capability cuda"
)
@click.option("--limit", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many at most. E.g. --limit 5")
@click.option("--wait", type=DURATION, metavar="TIME", help="Wait that long for the first. E.g. --wait 30s")
@click.option("--ttl", type=DURATION, default="60s", show_default=True, metavar="TIME", help="How long they last. E.g. --ttl 2m")
@click.option("--worker", default="", metavar="NAME", help="Who holds them. E.g. --worker render-7")
@printing
def claim(limit: int, wait: str | None, ttl: str, worker: str, **offered: tuple[str, ...]) -> None:
    """Lease runs and print a lease for each, best first."""
    served = {name: list(values) or None for name, values in offered.items() if name != "capabilities"}
    with desk().opened() as office:
        leases: Leases = office.engine.leases(worker, ttl=ttl, capabilities=offered["capabilities"], **served)
        found = leases.claim(limit, wait=wait)
        if not found:
            leases.close()
        if desk().as_json:
            print_json([_as_data(lease) for lease in found])
            return
        for lease in found:
            print(f"{lease.proof}  {lease.run.workflow}  {short(lease.run.input)}")


@tasks.command(epilog="Example: holdfast tasks renew LEASE --ttl 60s")
@click.argument("lease", metavar="LEASE")
@click.option(
    "--ttl", type=DURATION, default="60s", show_default=True, metavar="TIME", help="How long it lasts from now on. E.g. --ttl 2m"
)
@printing
def renew(lease: str, ttl: str) -> None:
    """Keep a lease, and all that were claimed with it."""
    with desk().opened() as office:
        office.engine.lease(lease, ttl=ttl).renew()
        _tell({"lease": lease, "renewed": True}, "renewed")


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
@printing
def fail(lease: str, kind: str, message: str) -> None:
    """Say that the attempt failed. KIND is transient, timeout, infrastructure, permanent or cancelled."""
    _end(lease, lambda held: held.fail(kind, message))


@tasks.command(epilog="Example: holdfast tasks delay LEASE 5m")
@click.argument("lease", metavar="LEASE")
@click.argument("until", metavar="WHEN", type=MOMENT)
@printing
def delay(lease: str, until: Any) -> None:
    """Put the run off for a time, or until one."""
    _end(lease, lambda held: held.delay(until))


@tasks.command(epilog="Example: holdfast tasks suspend LEASE approved rejected --timeout 2d")
@click.argument("lease", metavar="LEASE")
@click.argument("signals", metavar="SIGNAL...", nargs=-1, required=True)
@click.option("--timeout", type=DURATION, metavar="TIME", help="Wait no longer than that. E.g. --timeout 2d")
@printing
def suspend(lease: str, signals: tuple[str, ...], timeout: str | None) -> None:
    """Let the run wait for one of these signals."""
    _end(lease, lambda held: held.suspend(*signals, timeout=timeout))


@tasks.command(epilog="Example: holdfast tasks revoke last --reason 'its machine hangs'")
@click.argument("run", metavar="RUN")
@click.option(
    "--reason", default="revoked by an operator", show_default=True, metavar="TEXT", help="Why. E.g. --reason 'it hangs'"
)
@printing
def revoke(run: str, reason: str) -> None:
    """Take a run from whoever holds it; its late writes are refused."""
    with desk().opened() as office:
        found = office.find(run)
        held = office.engine.revoke(found.id, reason)
        _tell({"run": found.id, "revoked": held}, f"run {found.id} was taken back" if held else f"nobody holds run {found.id}")


@tasks.command(epilog="Example: holdfast tasks priority last 5")
@click.argument("run", metavar="RUN")
@click.argument("priority", metavar="N", type=int)
@printing
def priority(run: str, priority: int) -> None:
    """Change the priority of a run."""
    with desk().opened() as office:
        found = office.find(run)
        old = office.engine.prioritise(found.id, priority)
        _tell({"run": found.id, "old": old, "new": priority}, f"run {found.id} has priority {priority}, was {old}")


@tasks.command(epilog="Example: holdfast tasks override last 'done by hand' --result '7'")
@click.argument("run", metavar="RUN")
@click.argument("reason", metavar="REASON")
@click.option("--result", type=JSON, metavar="JSON", help="What it comes to. E.g. --result '7'")
@click.option("--failed", is_flag=True, help="It failed.")
@printing
def override(run: str, reason: str, result: Any, failed: bool) -> None:
    """End a run as you say, whoever holds it."""
    with desk().opened() as office:
        found = office.find(run)
        status = office.engine.override(found.id, reason, result=result, failed=failed)
        _tell({"run": found.id, "status": status.value}, f"run {found.id} is {status.value}")


def _end(lease: str, act: Callable[[Lease], Ended | Retried | Put]) -> None:
    with desk().opened() as office:
        held = office.engine.lease(lease)
        answer = act(held)
        _tell(_answer(office, held, answer), _line(held, answer))


def _answer(office: Office, held: Lease, answer: Ended | Retried | Put) -> dict[str, Any]:
    until = answer.at if isinstance(answer, Retried) else answer.until if isinstance(answer, Put) else None
    return {"run": held.run.id, "status": office.engine.run(held.run.id).status.value, "until": iso(until)}


def _line(held: Lease, answer: Ended | Retried | Put) -> str:
    if isinstance(answer, Ended):
        return f"run {held.run.id} is {answer.status.value}"
    if isinstance(answer, Retried):
        return f"run {held.run.id} is tried again at {iso(answer.at)}"
    return f"run {held.run.id} is {answer.status.value}" + (f" until {iso(answer.until)}" if answer.until else "")


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
        "signals": [{"name": one.name, "payload": msgspec.Raw(one.payload)} for one in lease.signals],
        "timed_out": lease.timed_out,
    }


def _tell(data: dict[str, Any], line: str) -> None:
    if desk().as_json:
        print_json(data)
    else:
        print(line)
