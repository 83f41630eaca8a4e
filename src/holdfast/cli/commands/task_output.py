"""Commands of ``holdfast tasks`` with which a holder reports progress and appends output."""

from __future__ import annotations

from typing import Any

import click

from holdfast.cli.commands.lease_output import report
from holdfast.cli.context import command_context, printing
from holdfast.cli.params import JSON, many
from holdfast.core.streams.model import StreamMode
from holdfast.core.streams.rules import null


@click.command(epilog="Example: holdfast tasks progress LEASE 40 'half of it'")
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


@click.command(
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
@many(
    "--null",
    "nulls",
    metavar="A,B",
    help=(
        "Set fields of the summary to null; in a patch, null deletes a field. A nested field is a"
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
