"""Models on the command line: the files of ``models deploy``, and the target of ``run``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from holdfast.cli.context import command_context
from holdfast.cli.definition_files import CHECKERS, CheckedFile, check_definitions
from holdfast.cli.loading import load_module, split
from holdfast.cli.output import print_json
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.open_store import file_of
from holdfast.core import typed_json
from holdfast.errors import ModelNotFound

ENDINGS = (".bpmn", ".bpmn20.xml", ".bpmn.xml")
"""The endings of files with processes."""


# Files


def check_files(files: Sequence[str]) -> list[CheckedFile]:
    """Check the files that have a checker, with the handlers that this process knows. Raises
    ClickException if a file does not exist."""
    for file in files:
        if os.path.isdir(file):
            raise click.ClickException(f"{file} is a folder: name the files in it")
        if not os.path.isfile(file):
            raise click.ClickException(f"there is no file {file}")
    known = [file for file in files if os.path.splitext(file)[1] in CHECKERS]
    return check_definitions(known, using=True)


def print_checked(checked: Sequence[CheckedFile]) -> None:
    """Print the problems of files, one per line, and exit with 1 if one of them is an error."""
    is_ok = all(file.ok for file in checked)
    if command_context().as_json:
        print_json({"ok": is_ok, "files": [file.as_json() for file in checked]})
    else:
        for file in checked:
            print("\n".join(file.lines()))
    if not is_ok:
        raise click.exceptions.Exit(1)


def require_sound(checked: Sequence[CheckedFile]) -> None:
    """Print warnings on stderr; print all problems and exit with 1 if one of them is an error."""
    if not all(file.ok for file in checked):
        print_checked(checked)
    for problem in (problem for file in checked for problem in file.problems):
        print(problem, file=sys.stderr)


def sources_of(files: Sequence[str]) -> list[Any]:
    """Return files as the engine deploys them. Raises ClickException."""
    return [_json_form(file) if file.endswith(".json") else file for file in files]


def _json_form(file: str) -> dict[str, Any]:
    try:
        form = typed_json.decode(Path(file).read_bytes(), dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise click.ClickException(f"{file} is not a process in JSON: {error}") from None
    return form


# The target of a run


class ModelRun:
    """The target of ``holdfast run``, if it is a model: a file, or the id of a deployed process."""

    def __init__(self, target: str, args: Sequence[Any], using: Sequence[str]) -> None:
        """Raises ClickException, UsageError."""
        self._target: str = target
        self._is_file: bool = target.endswith(ENDINGS)
        if len(args) > 1 or not all(isinstance(arg, dict) for arg in args):
            raise click.UsageError("a model takes its variables as one JSON object: '{\"x\": 1}'")
        for module in using:
            load_module(module)
        if self._is_file:
            require_sound(check_files([target]))

    def deploy(self, engine: Engine) -> str:
        """Deploy the file, and return the id of the process to start. Raises ClickException,
        ModelRefused."""
        if not self._is_file:
            return self._target
        # Imported here: commands about other workflows load nothing of models.
        from holdfast.authoring.bpmn.kind import executed
        from holdfast.authoring.bpmn.loading import load

        processes = [process.id for process in executed(load(self._target))]
        if len(processes) != 1:
            raise click.ClickException(
                f"{self._target} has the processes {', '.join(processes)}: deploy it with"
                f" `holdfast models deploy {self._target}`, then run one of them by its id"
            )
        engine.models.deploy(self._target)
        name: str = processes[0]
        return name


def deployed_kind(target: str) -> str | None:
    """Return the kind of a target that is a file with a process, or a definition that the database
    has; None for another target."""
    if target.endswith(ENDINGS):
        return "bpmn"
    if split(target)[1] is not None or os.sep in target or target.endswith((".py", ".wf")):
        return None
    path = file_of(command_context().url)
    if path is not None and not os.path.exists(path):
        return None
    with command_context().opened() as database:
        try:
            kind: str = database.engine.models.get(target).kind
        except ModelNotFound:
            return None
    return kind
