"""``holdfast signal, cancel, resume, replay, fork``: what people do to one run."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json
from holdfast.cli.params import JSON
from holdfast.core.events import EventKind
from holdfast.core.status import Status
from holdfast.store.contract import Store


def _tell(line: str, **data: Any) -> None:
    """Say what was done, in words or as data."""
    if command_context().as_json:
        print_json(data)
    else:
        print(line)


SIGNAL = """\b
Examples:
  holdfast signal last paid '{"amount": 10}' --key payment-77
  holdfast signal last approved --wait 01m7ge8gkb... --source ann
  holdfast signal --wait 01m7ge8gkb... --token k1.eyJ... approved"""


@click.command(short_help="Send a signal to a run, or to one of its waits.", epilog=SIGNAL)
@click.argument("words", metavar="RUN NAME [PAYLOAD_JSON]", nargs=-1)
@click.option(
    "--key",
    metavar="KEY",
    help="Send it at most once: the same key again sends nothing. E.g. --key payment-77",
)
@click.option(
    "--source", metavar="TEXT", help="Who sends it, for waits that count those. E.g. --source ann"
)
@click.option(
    "--wait",
    metavar="WAIT",
    help="The id of a wait that was handed out: send it to that. E.g. --wait 01m7ge8gkb...",
)
@click.option(
    "--token",
    metavar="TOKEN",
    envvar="HOLDFAST_TOKEN",
    help=(
        "Send it as somebody outside would, with the token of the wait, and no RUN. E.g. --token"
        " k1.eyJ... (or HOLDFAST_TOKEN)"
    ),
)
@printing
def signal(
    words: tuple[str, ...], key: str | None, source: str | None, wait: str | None, token: str | None
) -> None:
    """Send the signal NAME to a run; it may not wait for it yet."""
    if token is not None and wait is None:
        raise click.UsageError("--token opens a wait: name it with --wait")
    if token is None:
        run, name, payload = _words(words, ("RUN", "NAME"))
        _signal(run, name, payload, key, source, wait)
        return
    name, payload = _words(words, (), ("NAME",))
    with command_context().opened() as office:
        done = office.engine.deliver(str(wait), token, name, payload, source=source, key=key)
    _tell(
        f"signal sent to the wait {wait}: {done.effect.value}",
        wait=wait,
        signal=done.signal,
        effect=done.effect.value,
    )


def _words(
    words: tuple[str, ...], needed: tuple[str, ...], optional: tuple[str, ...] = ()
) -> list[Any]:
    """Tell the arguments apart; the last one is JSON."""
    if len(words) < len(needed):
        raise click.UsageError(f"Missing argument '{needed[len(words)]}'.")
    names = (*needed, *optional)
    if len(words) > len(names) + 1:
        raise click.UsageError(f"Got unexpected extra argument ({words[len(names) + 1]})")
    named = [words[place] if place < len(words) else None for place in range(len(names))]
    context = click.get_current_context()
    payload = JSON.convert(words[len(names)], None, context) if len(words) > len(names) else None
    return [*named, payload]


def _signal(
    run: str, name: str, payload: Any, key: str | None, source: str | None, wait: str | None
) -> None:
    with command_context().opened() as office:
        found = office.find(run)
        sent = office.engine.signal(found.id, name, payload, key=key, source=source, wait=wait)
        line = (
            f"signal {name} sent to {found.id}"
            if sent
            else f"signal {name} with key {key} had been sent to {found.id} before"
        )
        _tell(line, run=found.id, name=name, sent=sent)


@click.command(
    short_help="Ask a run to stop.", epilog="Example: holdfast cancel last --reason 'ordered twice'"
)
@click.argument("run", metavar="RUN")
@click.option(
    "--reason",
    metavar="TEXT",
    default="cancelled by request",
    show_default=True,
    help="Why. E.g. --reason 'ordered twice'",
)
@click.option("--force", is_flag=True, help="End it at once and undo nothing.")
@printing
def cancel(run: str, reason: str, force: bool) -> None:
    """Ask a run and its children to stop, and to undo what they did."""
    with command_context().opened() as office:
        found = office.find(run)
        status = office.engine.cancel(found.id, reason, force=force)
        line = (
            "was cancelled"
            if status is Status.CANCELLED
            else "was asked to stop; a worker undoes what it did"
        )
        _tell(f"run {found.id} {line}", run=found.id, status=status.value)


@click.command(
    short_help="Put a stuck run back to work.", epilog="Example: holdfast resume 01m7ge8gkb"
)
@click.argument("run", metavar="RUN")
@printing
def resume(run: str) -> None:
    """Put a stuck run back to work, once what made it stuck is mended."""
    with command_context().opened() as office:
        found = office.find(run)
        status = office.engine.resume(found.id)
        _tell(f"run {found.id} is {status.value}", run=found.id, status=status.value)


@click.command(
    short_help="Put a finished run back to work.",
    epilog="Example: holdfast replay last --from charge",
)
@click.argument("run", metavar="RUN")
@click.option(
    "--from",
    "step",
    metavar="STEP",
    help="Do this step, and all after it, again. E.g. --from charge",
)
@printing
def replay(run: str, step: str | None) -> None:
    """Put a finished run back to work, and its failed children: what completed stands, what failed
    is done again."""
    with command_context().opened() as office:
        found = office.find(run)
        status = office.engine.replay(found.id, from_step=step)
        children = _replayed_with(office.store, found.id)
        lines = [
            f"run {found.id} is {status.value}",
            *(f"child run {child} is replayed with it" for child in children),
        ]
        _tell("\n".join(lines), run=found.id, status=status.value, children=children)


def _replayed_with(store: Store, run_id: str) -> list[str]:
    """Return the runs that the last replay of a run has put back to work with it, those below its
    children too."""
    last = [event for event in store.history(run_id) if event.kind == EventKind.RUN_REPLAYED][-1:]
    children = [
        child
        for event in last
        for child in msgspec.json.decode(event.data or b"{}").get("children", ())
    ]
    return [one for child in children for one in (child, *_replayed_with(store, child))]


@click.command(
    short_help="Start a new run from the history of another.",
    epilog="Example: holdfast fork last --from pack",
)
@click.argument("run", metavar="RUN")
@click.option(
    "--from",
    "step",
    metavar="STEP",
    help="Keep the history before this step; default: keep none. E.g. --from pack",
)
@click.option(
    "--id",
    "wanted",
    metavar="ID",
    help="The id of the new run: the same command again makes no other run. E.g. --id retry-7",
)
@printing
def fork(run: str, step: str | None, wanted: str | None) -> None:
    """Start a new run with the same input, and the same history up to a step; print its id."""
    with command_context().opened() as office:
        found = office.find(run)
        made = office.engine.fork(found.id, from_step=step, id=wanted)
        _tell(made.id, id=made.id, forked_from=found.id, status=made.status.value)
