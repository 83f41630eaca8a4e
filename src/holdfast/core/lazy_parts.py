"""Parts of an object that are created when they are first used.

An engine has twenty namespaces, and a store as many groups of queries; a program uses few of them,
and each brings modules of its own. A class with such parts

- lists them as annotations, imported for type checkers only (import contracts see these imports);
- has a ``__getattr__``, which is called for a part that does not exist yet. It gets the class by
  ``part_class``, which loads the module, and keeps the new part as an attribute. Type checkers must
  not see this method: with it, they would accept every name.

A module whose functions are seldom called can be a ``LazyModule`` for its importer, which imports
it for type checkers only, too.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def part_names(owner: type) -> list[str]:
    """Return the names of the parts of *owner*, in the order of its annotations."""
    return list(owner.__annotations__)


def part_class(owner: type, name: str, module: str) -> Any:
    """Return the class of the part *name* of *owner*, which is in *module*. Raises AttributeError
    if there is no such part."""
    annotation = owner.__annotations__.get(name)
    if annotation is None:
        raise AttributeError(f"{owner.__name__!r} object has no attribute {name!r}")
    return getattr(import_module(module), annotation)


class LazyModule:
    """A module that is loaded when one of its names is first used."""

    def __init__(self, name: str) -> None:
        self._name: str = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self._name), name)
        setattr(self, name, value)
        return value
