"""``holdfast db rekey``: encrypt all stored values with the current key."""

from __future__ import annotations

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json
from holdfast.cli.progress import counting

EPILOG = """\b
Example: from key k1 to key k2
  HOLDFAST_KEYS=k2=$NEW_KEY,k1=$OLD_KEY holdfast db rekey"""


@click.command(short_help="Encrypt all stored values with the current key.", epilog=EPILOG)
@printing
def rekey() -> None:
    """Encrypt with the current key all values that are encrypted with another key or not encrypted
    yet; workers may run meanwhile.

    The keys are those of HOLDFAST_KEYS, the current one first, or of --codec. The command can be
    interrupted and repeated. Values under an unknown key and damaged values are not changed; the
    exit code is then 1."""
    with command_context().opened() as database, counting("{} runs checked") as progress:
        report = database.engine.keys.rekey(progress=progress, by=command_context().person())
        keys_in_use = database.keys_in_use()
    if command_context().as_json:
        print_json(
            {
                "runs": report.runs,
                "values": report.values,
                "unreadable": report.unreadable,
                "damaged": report.damaged,
                "keys": keys_in_use,
            }
        )
    else:
        print(
            f"{report.values} values of {report.runs} runs encrypted with the current key; keys in"
            f" use: {', '.join(keys_in_use) or 'none'}"
        )
    for damage in report.damaged:
        click.echo(f"not changed: {damage}", err=True)
    if report.unreadable:
        counts = ", ".join(f"{count} under key {key}" for key, count in report.unreadable.items())
        raise click.ClickException(
            f"some values were not changed, because their keys are unknown here ({counts}): add the"
            " keys to HOLDFAST_KEYS and repeat the command"
        )
    if report.damaged:
        raise click.ClickException(f"{len(report.damaged)} damaged values were not changed")
