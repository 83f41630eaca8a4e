"""Text workflows on the command line: the file of ``run``, the folders of ``worker``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from holdfast.cli.loading import known_workflows, load_module, load_workflow


class TextRun:
    """The options of ``holdfast run`` that are for text workflows."""

    def __init__(
        self,
        inputs: Sequence[str],
        variables: Sequence[str],
        using: Sequence[str],
        *,
        dry_run: bool,
        keep_going: bool,
        cwd: str | None,
    ) -> None:
        self.inputs: dict[str, str] = pairs("--input", inputs)
        self._using: Sequence[str] = using
        self._variables: dict[str, str] = pairs("--var", variables)
        self._flags: dict[str, bool] = {"dry_run": dry_run, "keep_going": keep_going}
        self._cwd: str | None = cwd
        self.is_text: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """The keyword arguments of a text workflow; none for another one."""
        if not self.is_text:
            return {}
        return {**self._own_settings(), "cwd": os.path.abspath(self._cwd or os.getcwd())}

    @property
    def remote_settings(self) -> dict[str, Any]:
        """The keyword arguments for a worker elsewhere, whose folders are its own. Raises
        UsageError."""
        if self._cwd is not None:
            raise click.UsageError("--cwd is a folder of this machine: the worker has another one")
        return self._own_settings()

    def _own_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {name: True for name, flag in self._flags.items() if flag}
        if self._variables:
            settings["variables"] = self._variables
        return settings

    def deployed(self, args: Sequence[Any]) -> list[Any]:
        """Return the arguments of a deployed text, whose inputs are options or one JSON object.
        Raises UsageError, ClickException."""
        self.is_text = True
        for module in self._using:
            load_module(module)
        return self.arguments(args)

    def arguments(self, args: Sequence[Any]) -> list[Any]:
        """Return the arguments of a run, with the inputs among them. Raises UsageError."""
        if not self.inputs:
            return list(args)
        if args:
            raise click.UsageError(
                "give the inputs as --input NAME=VALUE or as one JSON object, not both"
            )
        return [self.inputs]

    def load(self, target: str, args: Sequence[Any]) -> tuple[Any, list[Any] | None]:
        """Return the workflow to start, and the workflows that the process serves; None for all
        imported ones. Raises ClickException, BadWorkflow."""
        if not target.endswith(".wf"):
            self._refuse_for_python(target)
            return load_workflow(target), None
        self.is_text = True
        if args:
            raise click.UsageError("a text workflow has inputs: use --input NAME=VALUE")
        for module in self._using:
            load_module(module)
        library, name = load_text(target)
        return library[name], [library, *known_workflows().values()]

    def refuse_for_model(self, target: str) -> None:
        """Refuse the options that are for text workflows alone. Raises UsageError."""
        self._refuse(target, self._named())

    def _refuse_for_python(self, target: str) -> None:
        using = ["--using"] if self._using else []
        self._refuse(target, [*self._named(), *using])

    def _named(self) -> list[str]:
        """Return the options of text workflows that were named."""
        options = (
            ("--input", self.inputs),
            ("--var", self._variables),
            ("--dry-run", self._flags["dry_run"]),
            ("--keep-going", self._flags["keep_going"]),
            ("--cwd", self._cwd),
        )
        return [option for option, value in options if value]

    def _refuse(self, target: str, named: Sequence[str]) -> None:
        if named:
            raise click.UsageError(f"{named[0]} is for text workflows; {target} is not one")


def pairs(option: str, values: Sequence[str]) -> dict[str, str]:
    """Return NAME=VALUE options as a dict. Raises UsageError."""
    named: dict[str, str] = {}
    for text in values:
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise click.UsageError(f"{option} {text}: use NAME=VALUE")
        named[name] = value
    return named


def load_text(target: str) -> tuple[Any, str]:
    """Return the library of the folder of a file, and the name of the file's workflow. Raises
    ClickException, BadWorkflow."""
    # Imported here: commands about other workflows load nothing of texts.
    from holdfast.authoring.wf.files import load
    from holdfast.authoring.wf.library import Library

    path = Path(target)
    if not path.is_file():
        raise click.ClickException(f"there is no file {target}")
    document = load(path)
    library = Library(path.parent, root=os.getcwd())
    if library.document(document.name) is None or library.path_of(document.name) != path.resolve():
        library.add(document.text, path=os.path.relpath(path))
    return library, document.name


def load_folder(folder: str) -> Any:
    """Return the library of a folder of texts. Raises ClickException if it has none."""
    from holdfast.authoring.wf.library import Library

    library = Library(folder, root=os.getcwd())
    for problem in library.problems:
        click.echo(str(problem), err=True)
    if not library.names:
        raise click.ClickException(f"{folder} has no .wf file that can be read")
    return library
