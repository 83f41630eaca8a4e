"""Import the object that MODULE:NAME names.

MODULE is a dotted module name or the path of a .py file. The current folder is importable.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from holdfast.authoring import registry
from holdfast.core.program import Definition, is_definition
from holdfast.core.text import nearest


def split(target: str) -> tuple[str, str | None]:
    """Split MODULE:NAME; the name is None if the text after the last colon is not an identifier, as
    in a Windows path."""
    module, colon, name = target.rpartition(":")
    if colon and module and name and all(part.isidentifier() for part in name.split(".")):
        return module, name
    return target, None


def load_module(module: str) -> ModuleType:
    """Import a module by its dotted name or its path. Raises ClickException if that fails."""
    _add_to_path(os.getcwd())
    path = Path(module)
    is_path = module.endswith(".py") or os.sep in module
    if is_path and not path.is_file():
        raise click.ClickException(f"there is no file {module}")
    if is_path:
        return _translate_errors(module, lambda: _load_path(path.resolve()))
    return _translate_errors(module, lambda: _load_dotted(module))


def load_name(target: str) -> tuple[ModuleType, Any]:
    """Import MODULE:NAME and return the module and the named object."""
    module_name, name = split(target)
    if name is None:
        raise click.UsageError(
            f"{target!r} has no name after the module: use MODULE:NAME, as in shop.py:checkout"
        )
    module = load_module(module_name)
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            similar = nearest(name, _workflows(module))
            missing = f"{module_name} has no {name}"
            if similar is not None:
                missing += f": did you mean {module_name}:{similar}?"
            raise click.ClickException(f"{missing}; {_list_workflows(module)}")
        value = getattr(value, part)
    return module, value


def load_workflow(target: str) -> Any:
    """Import a workflow. Raises ClickException for any other object."""
    module, value = load_name(target)
    if not is_definition(value):
        raise click.ClickException(
            f"{target} is not a workflow but a {type(value).__name__}; {_list_workflows(module)}"
        )
    return value


def has_handlers() -> bool:
    """Return whether an imported module has bound handlers for the tasks of models."""
    handlers = sys.modules.get("holdfast.authoring.bpmn.handlers")
    return handlers is not None and bool(handlers.is_any_registered())


def _workflows(module: ModuleType) -> list[str]:
    return sorted(name for name, value in vars(module).items() if is_definition(value))


def _list_workflows(module: ModuleType) -> str:
    names = _workflows(module)
    if not names:
        return "the module defines no workflow with @workflow"
    return f"its workflows are {', '.join(names)}"


def _load_dotted(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module exists, but a module that it imports does not
        missing = f"there is no module {module!r} in this folder or on the Python path"
        if not os.path.exists(module):
            missing += ", and no file of this name"
        raise click.ClickException(missing) from error


def _load_path(path: Path) -> ModuleType:
    """Import a file; inside a package by its dotted name, so that its relative imports work."""
    root = path.parent
    parts = [path.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    _add_to_path(str(root))
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


def _add_to_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _translate_errors(module: str, load: Callable[[], ModuleType]) -> ModuleType:
    """Call *load*; raise its errors as ClickException with the file and line of their origin."""
    try:
        return load()
    except click.ClickException:
        raise
    except (Exception, SystemExit) as error:
        raise click.ClickException(
            f"importing {module} failed: {type(error).__name__}: {error}{_location(error)}"
        ) from error


def _location(error: BaseException) -> str:
    """Return " (file:line)" of the innermost frame outside the import machinery."""
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


def known_workflows() -> Mapping[str, Definition]:
    """Return the workflows that this process has imported, by name."""
    return registry.unique_definitions()


def require_unique_names() -> None:
    """Raise WorkflowExists if two of the imported workflows have the same name."""
    registry.require_unique()
