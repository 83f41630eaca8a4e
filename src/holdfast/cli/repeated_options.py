"""Refuse an option that takes one value and is given twice: click would silently take the last."""

from __future__ import annotations

from collections.abc import Sequence

import click

EVERYWHERE = frozenset({"--db"})
"""Options that mean the same before a command and after it."""


def refuse_repeated(
    command: click.Command,
    context: click.Context,
    words: Sequence[str],
    outer: frozenset[str] = frozenset(),
) -> None:
    """Raise UsageError if *words* give an option of *command*, or of a command inside it, a second
    value. *outer* are the options of EVERYWHERE that the commands around it were given."""
    _, rest, order = command.make_parser(context).parse_args(args=list(words))
    single = [item for item in order if isinstance(item, click.Option) and _takes_one(item)]
    for index, option in enumerate(single):
        if option in single[:index] or option.opts[0] in outer:
            raise click.UsageError(
                f"option '{option.opts[0]}' is given twice, but takes one value", context
            )
    if not isinstance(command, click.Group) or not rest:
        return
    inner = command.get_command(context, rest[0])
    if inner is not None:
        inside = inner.context_class(
            inner, info_name=rest[0], parent=context, **inner.context_settings
        )
        shared = EVERYWHERE & {option.opts[0] for option in single}
        refuse_repeated(inner, inside, rest[1:], outer | shared)


def _takes_one(option: click.Option) -> bool:
    return not (option.multiple or option.is_flag or option.count)
