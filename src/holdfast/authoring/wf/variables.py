"""The variables of a text workflow, and the substitution of ``{{name}}`` in its three modes.

A placeholder is replaced once: values are never searched for further placeholders. An unclosed
``{{`` stays as it is.

Invariants:
- A ``VariableMap`` is a snapshot: later steps do not change it.
- Values that are costly to build, such as all earlier contexts, are built on demand only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

PLACEHOLDER = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


def substitute(text: str, variables: Mapping[str, str]) -> str:
    """Replace the placeholders of a prompt or an environment; unknown ones are removed."""
    if "{{" not in text:
        return text
    return PLACEHOLDER.sub(lambda match: variables.get(match[1], ""), text)


def substitute_known(text: str, variables: Mapping[str, str]) -> str:
    """Replace the placeholders of an input of a sub-workflow; unknown ones are kept."""
    if "{{" not in text:
        return text
    return PLACEHOLDER.sub(lambda match: variables.get(match[1], match[0]), text)


def substitute_quoted(text: str, variables: Mapping[str, str]) -> str:
    """Replace the placeholders of a command line by quoted values; unknown ones are removed."""
    if "{{" not in text:
        return text

    def replace(match: re.Match[str]) -> str:
        value = variables.get(match[1])
        if value is None:
            return ""
        return quoted(value)

    return PLACEHOLDER.sub(replace, text)


def quoted(value: str) -> str:
    """Return a value in single quotes, as a POSIX shell reads it."""
    return "'" + value.replace("'", "'\\''") + "'"


def text_of_value(value: Any) -> str:
    """Return the text that stands for a typed value: a list or an object as JSON."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


class ContextEntry(msgspec.Struct, eq=False):
    """The context that a completed step leaves behind, and the entry before it.

    The entries are a linked list, so that a branch of a parallel block can add its own without
    copying the ones before it.
    """

    before: ContextEntry | None
    step: str
    iteration: int
    context: str
    markers: list[str]
    output: Any

    def after(self, before: ContextEntry | None) -> ContextEntry:
        """Return the same entry, after another one."""
        return ContextEntry(
            before, self.step, self.iteration, self.context, self.markers, self.output
        )

    def as_data(self) -> dict[str, Any]:
        """Return the entry as it is stored and shown."""
        return {
            "step": self.step,
            "iteration": self.iteration,
            "context": self.context,
            "markers": self.markers,
            "structured_output": self.output,
            "output_file": None,
        }


def entries_since(
    last: ContextEntry | None, first: ContextEntry | None = None
) -> list[ContextEntry]:
    """Return the entries after *first* up to *last*, oldest first."""
    entries: list[ContextEntry] = []
    entry = last
    while entry is not None and entry is not first:
        entries.append(entry)
        entry = entry.before
    entries.reverse()
    return entries


_PRIOR = ("prior_context", "prior_contexts", "prior_output")
"""The variables that are built on demand."""


class VariableMap(Mapping[str, str]):
    """All variables that a step sees, by name."""

    __slots__ = ("_last", "_output", "_plain")

    def __init__(self, plain: dict[str, str], last: ContextEntry | None, prior_output: Any) -> None:
        self._plain: dict[str, str] = plain
        self._last: ContextEntry | None = last
        self._output: Any = prior_output

    def with_values(self, values: Mapping[str, str]) -> VariableMap:
        """Return the same variables, with these in addition."""
        return VariableMap({**self._plain, **values}, self._last, self._output)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a variable, else *default*."""
        value = self._plain.get(name)
        if value is not None:
            return value
        if name == "prior_context":
            if self._last is None:
                return ""
            return self._last.context
        if name == "prior_contexts":
            entries = [entry.as_data() for entry in entries_since(self._last)]
            return msgspec.json.encode(entries).decode()
        if name == "prior_output" and self._output is not None:
            return text_of_value(self._output)
        return default

    def __getitem__(self, name: str) -> str:
        value: str | None = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._plain or name in self._on_demand()

    def __iter__(self) -> Iterator[str]:
        yield from self._plain
        yield from (name for name in self._on_demand() if name not in self._plain)

    def __len__(self) -> int:
        return len({*self._plain, *self._on_demand()})

    def _on_demand(self) -> tuple[str, ...]:
        if self._output is not None:
            return _PRIOR
        return _PRIOR[:2]

    @property
    def small(self) -> dict[str, str]:
        """The variables that are not built on demand: for the environment of scripts."""
        return self._plain
