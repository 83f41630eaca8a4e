"""``holdfast db rekey``: encrypt with the current key all that is not."""

from __future__ import annotations

import click

from holdfast.cli.context import command_context, printing
from holdfast.cli.output import print_json
from holdfast.cli.progress import counting

EPILOG = """\b
Example: from key k1 to key k2
  HOLDFAST_KEYS=k2=$NEW_KEY,k1=$OLD_KEY holdfast db rekey"""


@click.command(short_help="Encrypt all that is stored with the current key.", epilog=EPILOG)
@printing
def rekey() -> None:
    """Encrypt with the current key all that is stored under another one, or not encrypted yet;
    workers may go on meanwhile.

    The keys are those of HOLDFAST_KEYS, the current one first, or of --codec. It can be interrupted
    and given again. Exit 1 when something is under a key that is not known, or is damaged: it stays
    as it is."""
    with command_context().opened() as office, counting("{} runs looked at") as progress:
        done = office.engine.rekey(progress)
        left = office.store.keys_in_use()
    if command_context().as_json:
        print_json(
            {
                "runs": done.runs,
                "values": done.values,
                "unreadable": done.unreadable,
                "damaged": done.damaged,
                "keys": left,
            }
        )
    else:
        print(
            f"{done.values} values of {done.runs} runs encrypted anew; keys in use:"
            f" {', '.join(left) or 'none'}"
        )
    for damage in done.damaged:
        click.echo(f"stays as it is: {damage}", err=True)
    if done.unreadable:
        told = ", ".join(f"{count} under key {key}" for key, count in done.unreadable.items())
        raise click.ClickException(
            f"some values cannot be read, because their keys are not known here: {told}"
        )
    if done.damaged:
        raise click.ClickException(f"{len(done.damaged)} values are damaged and stay as they are")
