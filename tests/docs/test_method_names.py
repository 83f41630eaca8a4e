"""The methods that pages and docstrings name exist: ``engine.gates.approve``, ``Run.signal``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import holdfast
from holdfast.connect.blocking.graphs import GraphRun
from holdfast.connect.blocking.namespaces import Namespaces
from holdfast.connect.blocking.runs import RunQuery
from holdfast.core.lazy_parts import part_names
from holdfast.views.runs import RunView
from tests.docs.pages import PAGES, ROOT, label

NAMED = re.compile(
    r"(?<![\w./@-])(Async|)(engine|Engine|run|Run|RunQuery)\.([a-z]\w*)(?:\.([a-z]\w*))?"
)
"""An attribute of an engine, of a namespace of it, or of a run; not the path of a module."""

SOURCES = sorted((ROOT / "src" / "holdfast").rglob("*.py"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[holdfast.Engine]:
    with closing(holdfast.Engine(tmp_path_factory.mktemp("names") / "names.db")) as engine:
        yield engine


def unknown(text: str, engine: holdfast.Engine) -> list[str]:
    """Return the names in *text* that no object has."""
    return [match[0] for match in NAMED.finditer(text) if not is_known(match, engine)]


def is_known(found: re.Match[str], engine: holdfast.Engine) -> bool:
    _, owner, name, below = found.groups()
    if owner == "RunQuery":
        return hasattr(RunQuery, name)
    if owner in ("run", "Run"):
        # In a program, a variable "run" is also a run of a list, or a graph.
        return hasattr(holdfast.Run, name) or hasattr(GraphRun, name) or name in fields()
    if not hasattr(engine, name):
        return False
    is_namespace = name in part_names(Namespaces)
    return below is None or not is_namespace or hasattr(getattr(engine, name), below)


def fields() -> set[str]:
    return {"id", "revision", *RunView.__struct_fields__}


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text and isinstance(node.value.value, str):
            yield node.value.value


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_a_page_names_methods_that_exist(page: Path, engine: holdfast.Engine) -> None:
    assert unknown(page.read_text("utf-8"), engine) == []


def test_docstrings_name_methods_that_exist(engine: holdfast.Engine) -> None:
    wrong = {
        path.relative_to(ROOT).as_posix(): names
        for path in SOURCES
        if (names := [name for text in docstrings(path) for name in unknown(text, engine)])
    }

    assert wrong == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("call `engine.gates.list()` and `engine.start`", []),
        ("`engine.history(id)`", ["engine.history"]),
        ("`engine.gates.open_gates()`", ["engine.gates.open_gates"]),
        ("`Run.events`, `AsyncRun.id`", ["Run.events"]),
        ("`RunQuery.page`, `RunQuery.remove`", ["RunQuery.remove"]),
        ("holdfast.engine.worker, engine/runtime.py", []),
    ],
)
def test_an_unknown_name_is_found(text: str, names: list[str], engine: holdfast.Engine) -> None:
    assert unknown(text, engine) == names
