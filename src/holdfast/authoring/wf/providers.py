"""The item providers that ship with Holdfast: files, lines, rows, runs.

| provider | scope | items |
|---|---|---|
| ``files`` | ``glob``, ``root`` | the files that match, sorted; ``path``, ``name``, ``stem`` |
| ``lines`` | ``path`` | the lines of a file that are not empty; ``text``, ``number`` |
| ``rows`` | ``path``, ``id``, ``after`` | the rows of a JSON, JSON Lines or CSV file; its columns |
| ``runs`` | ``workflow``, ``status``, ``limit`` | runs of this engine; ``workflow``, ``status`` |

Paths are relative to the working folder of the run and stay inside it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.authoring.wf.registrations import Ask, FanoutItem, ItemProvider
from holdfast.authoring.wf.variables import text_of_value
from holdfast.errors.wf_runs import BadItem

LARGEST_FILE = 100_000_000
"""Bytes of the largest file that a provider reads."""

MOST_RUNS = 10_000

QueryRuns = Callable[[Mapping[str, str], int], Iterable[Mapping[str, str]]]
"""Returns runs of the engine: a filter and a limit to facts about each run."""


def _inside(ask: Ask, path: str, provider: str) -> Path:
    """Return a path below the working folder. Raises BadItem if it leaves that folder."""
    root = Path(ask.cwd).resolve()
    full = (root / path).resolve()
    if not full.is_relative_to(root):
        raise BadItem(provider=provider, path=path, why=f"the path leaves the folder {root}")
    return full


def _read(ask: Ask, provider: str) -> tuple[Path, str]:
    path = _inside(ask, ask.scope.get("path", ""), provider)
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadItem(provider=provider, path=str(path), why="the file is too large")
        return path, path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadItem(provider=provider, path=str(path), why=f"cannot be read: {error}") from None


def files(ask: Ask) -> list[FanoutItem]:
    """Return the files that match a glob, sorted by path."""
    root = _inside(ask, ask.scope.get("root", "."), "files")
    pattern = ask.scope.get("glob", "")
    if pattern.startswith("/") or ".." in Path(pattern).parts:
        raise BadItem(provider="files", glob=pattern, why="the pattern leaves its folder")
    paths = sorted(path for path in root.glob(pattern) if path.is_file())
    base = Path(ask.cwd).resolve()
    return [
        FanoutItem(
            path.relative_to(root).as_posix(),
            str(path.relative_to(base)),
            {"path": str(path.relative_to(base)), "name": path.name, "stem": path.stem},
        )
        for path in paths
        if path.resolve().is_relative_to(root)
    ]


def lines(ask: Ask) -> list[FanoutItem]:
    """Return the lines of a file that are not empty; the id is the line itself."""
    _, text = _read(ask, "lines")
    return [
        FanoutItem(line.strip(), str(number), {"text": line.strip(), "number": str(number)})
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]


def rows(ask: Ask) -> list[FanoutItem]:
    """Return the rows of a JSON, JSON Lines or CSV file."""
    path, text = _read(ask, "rows")
    records = list(_records(path, text))
    column = ask.scope.get("id", "id")
    after = ask.scope.get("after", "after")
    items = []
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise BadItem(provider="rows", path=str(path), row=number, why="a row is an object")
        item_id = record.get(column)
        blockers = record.get(after) or ()
        if isinstance(blockers, str):
            blockers = [word.strip() for word in blockers.split(",") if word.strip()]
        items.append(
            FanoutItem(
                str(number) if item_id in (None, "") else text_of_value(item_id),
                str(number),
                {str(name): text_of_value(value) for name, value in record.items()},
                [text_of_value(blocker) for blocker in blockers],
            )
        )
    return items


def _records(path: Path, text: str) -> Iterable[Any]:
    try:
        if path.suffix == ".csv":
            return list(csv.DictReader(io.StringIO(text), strict=True))
        if path.suffix in (".jsonl", ".ndjson"):
            return [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
        data = msgspec.json.decode(text)
    except (csv.Error, msgspec.DecodeError, RecursionError) as error:
        raise BadItem(provider="rows", path=str(path), why=f"cannot be read: {error}") from None
    if isinstance(data, dict):
        data = next((value for value in data.values() if isinstance(value, list)), [data])
    if not isinstance(data, list):
        raise BadItem(provider="rows", path=str(path), why="the file has no list of rows")
    return data


def runs(ask: Ask) -> list[FanoutItem]:
    """Return runs of this engine, oldest first."""
    query: QueryRuns | None = ask.query
    if query is None:
        raise BadItem(provider="runs", why="this provider works in an engine only")
    limit = ask.scope.get("limit", "100")
    if not limit.isdigit() or not 0 < int(limit) <= MOST_RUNS:
        raise BadItem(provider="runs", limit=limit, why=f"the limit is from 1 to {MOST_RUNS}")
    wanted = {**ask.scope, **ask.filter}
    wanted.pop("limit", None)
    unknown = sorted(set(wanted) - {"workflow", "status", "lane"})
    if unknown:
        raise BadItem(provider="runs", filter=unknown[0], why="filter by workflow, status or lane")
    return [
        FanoutItem(str(run["id"]), str(run["workflow"]), dict(run))
        for run in query(wanted, int(limit))
    ]


def _needs(*names: str) -> Callable[[Mapping[str, str], Mapping[str, str]], list[str]]:
    def check(scope: Mapping[str, str], filter: Mapping[str, str]) -> list[str]:
        return [f"the scope needs {name}" for name in names if not scope.get(name)]

    return check


SHIPPED: dict[str, ItemProvider] = {
    "files": ItemProvider(files, False, False, _needs("glob")),
    "lines": ItemProvider(lines, False, False, _needs("path")),
    "rows": ItemProvider(rows, True, False, _needs("path")),
    "runs": ItemProvider(runs, False, False, None),
}
"""The providers that every library has."""
