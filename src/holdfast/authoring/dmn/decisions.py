"""Loaded DMN files: `load` reads a file with its imports, `DecisionModel` evaluates decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from holdfast.authoring.dmn.decision import decide
from holdfast.authoring.dmn.linking import LinkedElement, LinkedModel
from holdfast.authoring.dmn.model import DmnImport, ElementKind
from holdfast.authoring.dmn.reading import DmnSource
from holdfast.authoring.dmn.xml import DmnElement
from holdfast.core.expressions.evaluate import FeelVariables
from holdfast.core.expressions.feel_names import normalized
from holdfast.core.expressions.limits import DEFAULT_LIMITS, ExpressionLimits
from holdfast.core.problems import Problem, did_you_mean
from holdfast.errors import BadOption, DecisionNotFound, ModelRefused, ModelUnreadable

Clock = Callable[[], datetime]

_UNNAMED = "decision.dmn"
"""The path in problems of a source that is not a file."""


def _check_variables(variables: Any) -> None:
    """Refuse variables that are neither JSON nor values of FEEL, whether or not they are used.
    Raises BadOption, ExpressionFailed."""
    if variables is None:
        return
    if not isinstance(variables, Mapping):
        raise BadOption(option="variables", why="give a mapping of names to values")
    values = FeelVariables(variables)
    for name in variables:
        values.get(name)


class DecisionModel:
    """The decisions of a file and of its imports."""

    def __init__(
        self,
        model: LinkedModel,
        contents: Sequence[bytes],
        clock: Clock | None = None,
    ) -> None:
        self._model: LinkedModel = model
        self._clock: Clock | None = clock
        self.contents: tuple[bytes, ...] = tuple(contents)
        """The file and the files that it imports."""

    @property
    def name(self) -> str:
        """The name of the file's definitions."""
        return self._model.main.name

    @property
    def problems(self) -> list[Problem]:
        """All problems; the model can be evaluated if none of them is an error."""
        return self._model.problems

    @property
    def decisions(self) -> list[str]:
        """The names of the decisions and decision services."""
        return [element.name for element in self._elements()]

    @property
    def ids(self) -> dict[str, str]:
        """The names of the decisions and decision services by their ids."""
        return {element.id: element.name for element in self._elements()}

    @property
    def inputs(self) -> list[str]:
        """The names of the declared inputs."""
        return [element.variable for element in self._model.own(ElementKind.INPUT)]

    def outputs(self, decision: str) -> tuple[str, ...]:
        """Return the names of the outputs of a decision table; empty for other decisions."""
        return self._find(decision).outputs

    def _elements(self) -> list[LinkedElement]:
        return self._model.own(ElementKind.DECISION, ElementKind.SERVICE)

    def evaluate(
        self,
        decision: str | None = None,
        variables: Mapping[str, Any] | None = None,
        *,
        now: datetime | None = None,
        limits: ExpressionLimits = DEFAULT_LIMITS,
    ) -> Any:
        """Return the value of a decision, by its name or id; a file with one decision needs no
        name. *now* is the time of ``now()`` and ``today()``. Raises DecisionNotFound, ModelRefused
        if the model has errors, RulesOverlap, RulesDisagree, BadExpression, BadOption."""
        _check_variables(variables)
        return self.value_of(decision, variables or {}, now=now, limits=limits)

    def value_of(
        self,
        decision: str | None,
        variables: Mapping[str, Any],
        *,
        now: datetime | None = None,
        limits: ExpressionLimits = DEFAULT_LIMITS,
    ) -> Any:
        """Return the value of a decision with variables that are known to be JSON. Raises as
        `evaluate`."""
        if any(problem.is_error for problem in self.problems):
            raise ModelRefused(self.problems)
        element = self._find(decision)
        if now is None and self._clock is not None:
            now = self._clock()
        return decide(self._model, element, variables, limits=limits, now=now)

    def _find(self, decision: str | None) -> LinkedElement:
        elements = self._elements()
        if decision is None and len(elements) == 1:
            return elements[0]
        for element in elements:
            if decision in (element.id, element.name):
                return element
        if isinstance(decision, str):
            for element in elements:
                if normalized(decision) in (element.name, element.variable):
                    return element
        names = [element.name for element in elements]
        hint = did_you_mean(str(decision), names)
        facts = {"decision": decision, "known": ", ".join(names)}
        if hint:
            facts["hint"] = hint
        raise DecisionNotFound(**facts)


def load_model(
    source: Any, *, imports: Iterable[Any] = (), clock: Clock | None = None
) -> DecisionModel:
    """Read a DMN file: a path, bytes or an open file. Files that it imports are looked for among
    *imports* and beside it. Raises ModelUnreadable; everything else is a problem of the model."""
    data, path = _content(source)
    others = [_content(each) for each in imports]
    return _loaded([(data, path), *others], _folder(path), clock)


def load_contents(contents: Sequence[bytes]) -> DecisionModel:
    """Read a file and its imports from their contents."""
    return _loaded([(content, _UNNAMED) for content in contents], None, None)


def _content(source: Any) -> tuple[bytes, str]:
    if isinstance(source, bytes):
        return source, _UNNAMED
    if isinstance(source, str | Path):
        try:
            return Path(source).read_bytes(), str(source)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ModelUnreadable(path=str(source), why=why) from None
    if hasattr(source, "read"):
        data = source.read()
        if isinstance(data, str):
            data = data.encode()
        return data, str(getattr(source, "name", _UNNAMED))
    raise BadOption(option="source", why="give a path, bytes or an open file")


def _folder(path: str) -> Path | None:
    if path == _UNNAMED:
        return None
    return Path(path).parent


def _loaded(
    contents: list[tuple[bytes, str]], folder: Path | None, clock: Clock | None
) -> DecisionModel:
    main = _source(*contents[0])
    others = {}
    for data, path in contents[1:]:
        other = _source(data, path)
        others[other.namespace] = (other, data)
    sources = [main]
    datas = [contents[0][0]]
    missing: list[tuple[DmnSource, DmnImport]] = []
    for source in sources:  # grows while imports are found
        for wanted in source.imports:
            if any(wanted.namespace == known.namespace for known in sources):
                continue
            match = others.get(wanted.namespace) or _beside(folder, wanted)
            if match is None:
                missing.append((source, wanted))
                continue
            sources.append(match[0])
            datas.append(match[1])
    names = frozenset().union(*(source.names for source in sources))
    files = [source.read(names) for source in sources]
    for source, wanted in missing:
        reader = files[sources.index(source)][1]
        place = DmnElement("", {}, wanted.line)
        message = f"the imported namespace `{wanted.namespace}` was not found"
        reader.problem(place, "unknown-import", message, "put the file beside this one")
    return DecisionModel(LinkedModel(files), datas, clock)


def _source(data: bytes, path: str) -> DmnSource:
    try:
        return DmnSource(data, path)
    except ModelUnreadable as error:
        raise ModelUnreadable(path=path, **error.facts) from None


def _beside(folder: Path | None, wanted: DmnImport) -> tuple[DmnSource, bytes] | None:
    """Return the file in the same folder that has a namespace."""
    if folder is None:
        return None
    named = Path(wanted.location.rpartition("/")[2])
    candidates = [folder / named.name] if named.name else []
    candidates += sorted(folder.glob("*.dmn"))[:200]
    for candidate in candidates:
        try:
            data = candidate.read_bytes()
            source = DmnSource(data, str(candidate))
        except (OSError, ModelUnreadable):
            continue
        if source.namespace == wanted.namespace:
            return source, data
    return None
