"""``holdfast fmt``: format ``.wf`` and ``.wft`` files."""

from __future__ import annotations

import difflib
import os
import sys
import tempfile

import click

from holdfast.authoring.wf.files import decoded, file_text
from holdfast.authoring.wf.format import format_text
from holdfast.cli.definition_files import files_of
from holdfast.core.problems import Problem
from holdfast.errors import BadWorkflow

ENDINGS = (".wf", ".wft")
STDIN = "<stdin>"

EPILOG = """\b
Examples:
  holdfast fmt flows              format all .wf files of a folder in place
  holdfast fmt --check flows      exit with code 1 if a file would change
  holdfast fmt - < nightly.wf     format stdin to stdout"""


@click.command(short_help="Format .wf files.", epilog=EPILOG)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True)
@click.option("--check", "only_check", is_flag=True, help="Change nothing; only report.")
@click.option("--diff", "show_diff", is_flag=True, help="Change nothing; print the differences.")
def fmt(paths: tuple[str, ...], only_check: bool, show_diff: bool) -> None:
    """Format .wf and .wft files in place. Comments are kept, and formatting twice changes nothing.
    `-` formats stdin to stdout. With --check the exit code is 1 if a file would change; a file with
    syntax errors stays as it is, and the exit code is 1.
    """
    failed = False
    for path in paths:
        if path == "-":
            failed |= not _format_stdin(only_check, show_diff)
            continue
        for file in files_of(path, ENDINGS):
            failed |= not _format_file(file, only_check, show_diff)
    if failed:
        raise click.exceptions.Exit(1)


def _format_stdin(only_check: bool, show_diff: bool) -> bool:
    text, problem = decoded(sys.stdin.buffer.read(), STDIN)
    formatted = _formatted(text, STDIN, problem)
    if formatted is None:
        return False
    if only_check or show_diff:
        return _report(STDIN, text, formatted, show_diff) or not only_check
    sys.stdout.write(formatted)
    return True


def _format_file(path: str, only_check: bool, show_diff: bool) -> bool:
    """Format a file. Return False if it has errors, or if it would change and must not."""
    text, problem = file_text(path, path)
    formatted = _formatted(text, path, problem)
    if formatted is None:
        return False
    if only_check or show_diff:
        return _report(path, text, formatted, show_diff) or not only_check
    if formatted != text:
        _replace(path, formatted)
        print(f"formatted {path}")
    return True


def _formatted(text: str, path: str, problem: Problem | None) -> str | None:
    """Return the formatted text; None, with the problems on stderr, if it has syntax errors."""
    try:
        if problem is not None:
            raise BadWorkflow(problems=(problem,))
        return format_text(text, path)
    except BadWorkflow as error:
        for each in error.problems:
            print(each, file=sys.stderr)
        return None


def _report(path: str, text: str, formatted: str, show_diff: bool) -> bool:
    """Print the differences, or the name of a file that would change. Return whether the file is
    formatted already."""
    if formatted == text:
        return True
    if show_diff:
        sys.stdout.writelines(
            line if line.endswith("\n") else f"{line}\n"
            for line in difflib.unified_diff(
                text.splitlines(keepends=True), formatted.splitlines(keepends=True), path, path
            )
        )
    else:
        print(f"would format {path}")
    return False


def _replace(path: str, text: str) -> None:
    """Write a file in one step: a crash leaves the old text or the new one."""
    target = os.path.realpath(path)
    handle, name = tempfile.mkstemp(dir=os.path.dirname(target), suffix=".wf~")
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(name, os.stat(target).st_mode & 0o7777)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
