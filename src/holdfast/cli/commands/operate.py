"""``holdfast signal, cancel, resume, replay, fork``: operations on a run, or on many."""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from holdfast.cli.bulk import apply_to, is_single, selecting
from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json
from holdfast.cli.params import JSON
from holdfast.cli.run_filters import are_given
from holdfast.connect.blocking.runs import RunQuery
from holdfast.connect.open_database import OpenDatabase
from holdfast.core.operations import BulkVerb
from holdfast.core.status import Status


def _report(line: str, **data: Any) -> None:
    """Print the outcome of a command, as a line or with --json as data."""
    if command_context().as_json:
        print_json(data)
    else:
        print(line)


SIGNAL = """\b
Examples:
  holdfast signal last paid '{"amount": 10}' --key payment-77
  holdfast signal last approved --wait 01m7ge8gkb... --source ann
  holdfast signal --wait 01m7ge8gkb... --token k1.eyJ... approved
  holdfast signal approved true --status waiting --workflow review"""


@click.command(short_help="Send a signal to a run or to one of its waits.", epilog=SIGNAL)
@click.argument("words", metavar="RUN NAME [PAYLOAD_JSON]", nargs=-1)
@click.option(
    "--key",
    metavar="KEY",
    help="Send at most one signal with this key. E.g. --key payment-77",
)
@click.option(
    "--source",
    metavar="TEXT",
    help="The sender, for waits that count different senders. E.g. --source ann",
)
@click.option(
    "--wait",
    metavar="WAIT",
    help="Send the signal to this wait, by its id. E.g. --wait 01m7ge8gkb...",
)
@click.option(
    "--token",
    metavar="TOKEN",
    envvar="HOLDFAST_TOKEN",
    help=(
        "Send the signal as an outside program would: with the token of the wait, and without RUN."
        " E.g. --token k1.eyJ... [env: HOLDFAST_TOKEN]"
    ),
)
@selecting(without=["--key"])
@printing
def signal(
    words: tuple[str, ...],
    key: str | None,
    source: str | None,
    wait: str | None,
    token: str | None,
    dry_run: bool,
    yes: bool,
    by: str | None,
    **filters: Any,
) -> None:
    """Send the signal NAME to a run; the run need not wait for it yet. Without RUN, send it to all
    runs that the options select."""
    if token is not None and wait is None:
        raise click.UsageError("--token belongs to a wait: name the wait with --wait")
    if are_given(**filters):
        name, payload = _parse(words, ("NAME",))
        with command_context().opened() as database:
            send = partial(RunQuery.signal, name=name, payload=payload, key=key, source=source)
            apply_to(database, BulkVerb.SIGNAL, send, (), filters, dry_run=dry_run, yes=yes, by=by)
        return
    if token is None:
        run, name, payload = _parse(words, ("RUN", "NAME"))
        _signal(run, name, payload, key, source, wait)
        return
    name, payload = _parse(words, (), ("NAME",))
    with command_context().opened() as database:
        receipt = database.engine.waits.deliver(
            str(wait), token, name, payload, source=source, key=key
        )
    _report(
        f"signal sent to the wait {wait}: {receipt.effect.value}",
        wait=wait,
        signal=receipt.signal,
        effect=receipt.effect.value,
    )


def _parse(
    words: tuple[str, ...], needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> list[Any]:
    """Return one value per name (None for a missing optional one), then the payload from JSON."""
    if len(words) < len(needed):
        raise click.UsageError(f"Missing argument '{needed[len(words)]}'.")
    names = (*needed, *optional)
    if len(words) > len(names) + 1:
        raise click.UsageError(f"Got unexpected extra argument ({words[len(names) + 1]})")
    values: list[Any] = [*words[: len(names)]]
    values += [None] * (len(names) - len(values))
    payload = None
    if len(words) > len(names):
        payload = JSON.convert(words[len(names)], None, click.get_current_context())
    return [*values, payload]


def _signal(
    run: str, name: str, payload: Any, key: str | None, source: str | None, wait: str | None
) -> None:
    with command_context().opened() as database:
        run_id = database.find(run).id
        sent = database.engine.signal(run_id, name, payload, key=key, source=source, wait=wait)
        if sent:
            line = f"signal {name} sent to {run_id}"
        else:
            line = f"not sent: a signal {name} with the key {key} was sent to {run_id} before"
        _report(line, run=run_id, name=name, sent=sent)


CANCEL = """\b
Examples:
  holdfast cancel last --reason 'ordered twice'
  holdfast cancel --status waiting --workflow checkout --dry-run"""


@click.command(short_help="Cancel a run, or many.", epilog=CANCEL)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "--reason",
    metavar="TEXT",
    default="cancelled by request",
    show_default=True,
    help="The reason. E.g. --reason 'ordered twice'",
)
@click.option("--force", is_flag=True, help="End the run at once, without compensation.")
@selecting()
@printing
def cancel(
    runs: tuple[str, ...],
    reason: str,
    force: bool,
    dry_run: bool,
    yes: bool,
    by: str | None,
    **filters: Any,
) -> None:
    """Cancel a run and its children: a worker stops them and runs their compensations. Without RUN,
    cancel all runs that the options select."""
    single = is_single(runs, dry_run=dry_run, filters=filters)
    with command_context().opened() as database:
        if single:
            _cancel(database, runs[0], reason, force, by)
            return
        stop = partial(RunQuery.cancel, reason=reason, force=force)
        apply_to(database, BulkVerb.CANCEL, stop, runs, filters, dry_run=dry_run, yes=yes, by=by)


def _cancel(database: OpenDatabase, run: str, reason: str, force: bool, by: str | None) -> None:
    run_id = database.find(run).id
    status = database.engine.cancel(run_id, reason, force=force, by=command_context().person(by))
    if status is Status.CANCELLED:
        line = f"run {run_id} was cancelled"
    else:
        line = f"cancellation of run {run_id} requested; a worker runs its compensations"
    _report(line, run=run_id, status=status.value)


RESUME = """\b
Examples:
  holdfast resume 01m7ge8gkb
  holdfast resume --status stuck --workflow checkout"""


@click.command(short_help="Put stuck runs back to work.", epilog=RESUME)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@selecting()
@printing
def resume(runs: tuple[str, ...], dry_run: bool, yes: bool, by: str | None, **filters: Any) -> None:
    """Put a stuck run back to work after its cause has been fixed. Without RUN, resume all runs
    that the options select."""
    single = is_single(runs, dry_run=dry_run, filters=filters)
    with command_context().opened() as database:
        if not single:
            apply_to(
                database,
                BulkVerb.RESUME,
                RunQuery.resume,
                runs,
                filters,
                dry_run=dry_run,
                yes=yes,
                by=by,
            )
            return
        run_id = database.find(runs[0]).id
        status = database.engine.resume(run_id, by=command_context().person(by))
        _report(f"run {run_id} is {status.value}", run=run_id, status=status.value)


REPLAY = """\b
Examples:
  holdfast replay last --from charge
  holdfast replay --status failed --workflow checkout --since 1d"""


@click.command(short_help="Put finished runs back to work.", epilog=REPLAY)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "--from",
    "step",
    metavar="STEP",
    help="Repeat this step and all steps after it. E.g. --from charge",
)
@selecting()
@printing
def replay(
    runs: tuple[str, ...],
    step: str | None,
    dry_run: bool,
    yes: bool,
    by: str | None,
    **filters: Any,
) -> None:
    """Put a finished run and its failed children back to work: completed steps keep their results,
    failed steps run again. Without RUN, replay all runs that the options select."""
    single = is_single(runs, dry_run=dry_run, filters=filters)
    with command_context().opened() as database:
        if not single:
            again = partial(RunQuery.replay, from_step=step)
            apply_to(
                database, BulkVerb.REPLAY, again, runs, filters, dry_run=dry_run, yes=yes, by=by
            )
            return
        run_id = database.find(runs[0]).id
        status = database.engine.replay(run_id, from_step=step, by=command_context().person(by))
        children = database.replayed_children(run_id)
        lines = [
            f"run {run_id} is {status.value}",
            *(f"child run {child} is replayed with it" for child in children),
        ]
        _report("\n".join(lines), run=run_id, status=status.value, children=children)


@click.command(
    short_help="Start a new run from the history of another.",
    epilog="Example: holdfast fork last --from pack",
)
@click.argument("run", metavar="RUN")
@click.option(
    "--from",
    "step",
    metavar="STEP",
    help="Copy the history before this step; default: copy none. E.g. --from pack",
)
@click.option(
    "--id",
    "new_id",
    metavar="ID",
    help="The id of the new run; the same command again starts no other run. E.g. --id order-7b",
)
@printing
def fork(run: str, step: str | None, new_id: str | None) -> None:
    """Start a new run with the same input and with the history before a step; print its id."""
    with command_context().opened() as database:
        run_id = database.find(run).id
        forked = database.engine.fork(
            run_id, from_step=step, id=new_id, by=command_context().person()
        )
        _report(forked.id, id=forked.id, forked_from=run_id, status=forked.status.value)
