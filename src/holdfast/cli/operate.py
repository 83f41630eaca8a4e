"""``holdfast signal, cancel, resume, replay, fork``: what people do to one run."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.desk import desk, printing
from holdfast.cli.output import print_json
from holdfast.cli.values import JSON
from holdfast.core.status import Status


def _tell(line: str, **data: Any) -> None:
    """Say what was done, in words or as data."""
    if desk().as_json:
        print_json(data)
    else:
        print(line)


@click.command(
    short_help="Send a signal to a run.", epilog="Example: holdfast signal last paid '{\"amount\": 10}' --key payment-77"
)
@click.argument("run", metavar="RUN")
@click.argument("name", metavar="NAME")
@click.argument("payload", metavar="[PAYLOAD_JSON]", type=JSON, required=False)
@click.option("--key", metavar="KEY", help="Send it at most once: the same key again sends nothing. E.g. --key payment-77")
@printing
def signal(run: str, name: str, payload: Any, key: str | None) -> None:
    """Send the signal NAME to a run; it may not wait for it yet."""
    with desk().opened() as office:
        found = office.find(run)
        sent = office.engine.signal(found.id, name, payload, key=key)
        line = f"signal {name} sent to {found.id}" if sent else f"signal {name} with key {key} had been sent to {found.id} before"
        _tell(line, run=found.id, name=name, sent=sent)


@click.command(short_help="Ask a run to stop.", epilog="Example: holdfast cancel last --reason 'ordered twice'")
@click.argument("run", metavar="RUN")
@click.option(
    "--reason", metavar="TEXT", default="cancelled by request", show_default=True, help="Why. E.g. --reason 'ordered twice'"
)
@click.option("--force", is_flag=True, help="End it at once and undo nothing.")
@printing
def cancel(run: str, reason: str, force: bool) -> None:
    """Ask a run and its children to stop, and to undo what they did."""
    with desk().opened() as office:
        found = office.find(run)
        status = office.engine.cancel(found.id, reason, force=force)
        line = "was cancelled" if status is Status.CANCELLED else "was asked to stop; a worker undoes what it did"
        _tell(f"run {found.id} {line}", run=found.id, status=status.value)


@click.command(short_help="Put a stuck run back to work.", epilog="Example: holdfast resume 01m7ge8gkb")
@click.argument("run", metavar="RUN")
@printing
def resume(run: str) -> None:
    """Put a stuck run back to work, once what made it stuck is mended."""
    with desk().opened() as office:
        found = office.find(run)
        status = office.engine.resume(found.id)
        _tell(f"run {found.id} is {status.value}", run=found.id, status=status.value)


@click.command(short_help="Put a finished run back to work.", epilog="Example: holdfast replay last --from charge")
@click.argument("run", metavar="RUN")
@click.option("--from", "step", metavar="STEP", help="Do this step, and all after it, again. E.g. --from charge")
@printing
def replay(run: str, step: str | None) -> None:
    """Put a finished run back to work: what completed stands, what failed is done again."""
    with desk().opened() as office:
        found = office.find(run)
        status = office.engine.replay(found.id, from_step=step)
        _tell(f"run {found.id} is {status.value}", run=found.id, status=status.value)


@click.command(short_help="Start a new run from the history of another.", epilog="Example: holdfast fork last --from pack")
@click.argument("run", metavar="RUN")
@click.option("--from", "step", metavar="STEP", help="Keep the history before this step; default: keep none. E.g. --from pack")
@printing
def fork(run: str, step: str | None) -> None:
    """Start a new run with the same input, and the same history up to a step; print its id."""
    with desk().opened() as office:
        found = office.find(run)
        made = office.engine.fork(found.id, from_step=step)
        _tell(made.id, id=made.id, forked_from=found.id, status=made.status.value)
