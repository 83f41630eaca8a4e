"""Every `holdfast` command that a page or an example shows exists, with its options."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from holdfast.cli.main import cli
from tests.docs.pages import PAGES, ROOT, label

SHOWN = [*PAGES, *sorted((ROOT / "examples").rglob("*.md"))]

_COMMAND = re.compile(r"(?:^\$ |^|`|\$\()holdfast ([^`\n]+)", re.MULTILINE)
_END = re.compile(r"\s{2,}|\s#|\s[|>]\s|\)$")  # a comment, a pipe, the end of $(...)
_NOTATION = re.compile(r"[\[\]…]|\.\.\.")  # of optional and omitted parts


@pytest.mark.parametrize("page", SHOWN, ids=label)
def test_a_page_shows_commands_that_exist(page: Path) -> None:
    assert [fault for line in _lines(page.read_text("utf-8")) for fault in _faults(line)] == []


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("runs --status failed", []),
        ("--db orders.db db check", []),
        ("events webhooks set hook https://example.org", []),
        ("runz", ["holdfast runz"]),
        ("waits --token", ["holdfast waits --token"]),
        ("events webhooks replay hook", ["holdfast events webhooks replay"]),
    ],
)
def test_an_unknown_command_is_found(line: str, faults: list[str]) -> None:
    assert list(_faults(line)) == faults


def _lines(text: str) -> Iterator[str]:
    """The commands of a page, without their comments."""
    for match in _COMMAND.finditer(text):
        line = _NOTATION.sub("", _END.split(match[1])[0])
        if re.match(r"[a-z-]", line):
            yield line


def _faults(line: str) -> Iterator[str]:
    """The first word of each part of a command line that does not exist."""
    try:
        words = shlex.split(line)
    except ValueError:  # the line continues on the next one
        return
    command: click.Command = cli
    context = click.Context(cli, info_name="holdfast")
    path = ["holdfast"]
    values = _options(cli)
    while words:
        word = words.pop(0)
        option, given, _ = word.partition("=")
        if re.match(r"--?[a-zA-Z]", word):
            if option not in values:
                yield f"{' '.join(path)} {option}"
            elif not given:
                del words[: values[option]]
            continue
        if not isinstance(command, click.Group):
            continue
        subcommand = command.get_command(context, word)
        if subcommand is None:
            if not re.fullmatch(r"[A-Z_]+", word):  # a placeholder, such as COMMAND
                yield f"{' '.join(path)} {word}"
            return
        command = subcommand
        context = click.Context(subcommand, parent=context, info_name=word)
        path.append(word)
        values = _options(cli) | _options(subcommand)


def _options(command: click.Command) -> dict[str, int]:
    """The options of a command, and how many words follow each of them."""
    values = {"-h": 0, "--help": 0}
    for option in command.params:
        if isinstance(option, click.Option):
            words = 0 if option.is_flag or option.count else option.nargs
            values.update(dict.fromkeys([*option.opts, *option.secondary_opts], words))
    return values
