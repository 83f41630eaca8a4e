"""From MODULE:NAME to what it names: a dotted module or a .py file; the current folder can be
imported from."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from holdfast.authoring import registry
from holdfast.authoring.python.workflow import Workflow


def split(target: str) -> tuple[str, str | None]:
    """Tell the module from the name; a colon within a path is none of ours."""
    module, colon, name = target.rpartition(":")
    if colon and module and name and all(part.isidentifier() for part in name.split(".")):
        return module, name
    return target, None


def load_module(module: str) -> ModuleType:
    """Import a module by its dotted name or its path."""
    _see_folder(os.getcwd())
    path = Path(module)
    is_path = module.endswith(".py") or os.sep in module
    if is_path and not path.is_file():
        raise click.ClickException(f"there is no file {module}")
    return _guarded(module, lambda: _load_path(path.resolve()) if is_path else _load_dotted(module))


def load_name(target: str) -> tuple[ModuleType, Any]:
    """Import MODULE:NAME and return both the module and what it names."""
    module_name, name = split(target)
    if name is None:
        raise click.UsageError(
            f"{target!r} names no workflow: say MODULE:WORKFLOW, as in shop.py:checkout"
        )
    module = load_module(module_name)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise click.ClickException(f"{module_name} has no {name}; {_offered(module)}")
        found = getattr(found, part)
    return module, found


def load_workflow(target: str) -> Workflow[..., Any]:
    """Import a workflow; refuse what is none."""
    module, found = load_name(target)
    if not isinstance(found, Workflow):
        raise click.ClickException(
            f"{target} is no workflow, but a {type(found).__name__}; {_offered(module)}"
        )
    return found


def _offered(module: ModuleType) -> str:
    names = sorted(name for name, value in vars(module).items() if isinstance(value, Workflow))
    return (
        f"its workflows are {', '.join(names)}"
        if names
        else "it defines no workflow with @workflow"
    )


def _load_dotted(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # it is there, but something that it needs is not
        raise click.ClickException(
            f"there is no module {module!r} in this folder or on the Python path"
        ) from error


def _load_path(path: Path) -> ModuleType:
    """Load a file; within a package by its dotted name, so that its relative imports work."""
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    _see_folder(str(root))
    if len(parts) > 1:
        return importlib.import_module(".".join(parts))
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == str(path):
        return known
    name = path.stem if known is None else f"{path.stem} ({path})"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _see_folder(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _guarded(module: str, load: Callable[[], ModuleType]) -> ModuleType:
    """Import; whatever the module raises is told in one line, with its place."""
    try:
        return load()
    except click.ClickException:
        raise
    except (Exception, SystemExit) as error:
        raise click.ClickException(
            f"importing {module} failed: {type(error).__name__}: {error}{_where(error)}"
        ) from error


def _where(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return ""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not _is_machinery(frame.filename)
    ]
    return f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _is_machinery(filename: str) -> bool:
    return (
        filename.startswith("<frozen")
        or filename == __file__
        or f"{os.sep}importlib{os.sep}" in filename
    )


def known_workflows() -> dict[str, Any]:
    """Return all workflows that have been imported, by name."""
    return registry.known()
