"""Problems of a definition that an error carries, also if another process has reported them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class ReportedProblem(dict[str, Any]):
    """A problem of a definition as a server reports it: its fields by name, which are attributes,
    too. A field that it does not have is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.get(name)

    @property
    def is_error(self) -> bool:
        return bool(self.severity != "warning")

    def __str__(self) -> str:
        places = (self.path, self.line, self.column)
        place = ":".join(str(part) for part in places if part is not None)
        texts = (place, self.severity, self.element, self.message, self.hint)
        text = ": ".join(str(part) for part in texts if part)
        if self.code:
            return f"{text} [{self.code}]"
        return text


def problems_of(problems: Iterable[Any]) -> list[Any]:
    """Return problems as objects: a server reports each as the mapping of its fields."""
    return [
        ReportedProblem(problem) if isinstance(problem, Mapping) else problem
        for problem in problems
    ]
