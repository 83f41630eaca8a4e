"""``replay``: a recorded run as a test of the code, without executing anything."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.blocking.run import Run
from holdfast.connect.dry_replay import LIMIT, DryReplay
from holdfast.connect.open_database import opened
from holdfast.core.codec import Codec
from holdfast.core.dry_replay import Judgement, JudgementSummary
from holdfast.core.duration import Duration
from holdfast.core.program import Definition, is_definition
from holdfast.errors import BadOption
from holdfast.views.dry_replay import detail_of

Code = ModuleType | str | os.PathLike[str] | Definition | Iterable[Definition]
"""A module, its dotted name, its path, a workflow, or several workflows."""


class DoesNotFit(AssertionError):
    """The code does not fit recorded runs; ``report`` has the verdict on each."""

    def __init__(self, report: JudgementSummary) -> None:
        self.report: JudgementSummary = report
        super().__init__("\n".join(_objections(report)))


def replay(
    source: str | os.PathLike[str] | Engine | Run[Any],
    code: Code,
    *,
    codec: Codec | None = None,
    limit: Duration = LIMIT,
) -> JudgementSummary:
    """Replay recorded runs with *code*, and return the verdict on each. Raises DoesNotFit if the
    code cannot continue one of them.

    *source* is a file that ``holdfast db export`` has written (all its runs are replayed), an
    engine (every live run of the workflows), or a run. *code* is a module, its dotted name or path,
    a workflow, or several workflows. *codec* opens the values of a file. No step is executed, and
    nothing is written; the code of the workflows itself runs."""
    definitions = _definitions_of(code)
    report = _judge(source, definitions, codec, limit)
    if not report.fits:
        raise DoesNotFit(report)
    return report


def _judge(
    source: Any, definitions: dict[str, Definition], codec: Codec | None, limit: Duration
) -> JudgementSummary:
    if isinstance(source, AsyncEngine):
        why = "replay blocks: pass the file, or an Engine on the same database"
        raise BadOption(option="source", value="AsyncEngine", why=why)
    if isinstance(source, Engine):
        parts = source._calls.open()
        return DryReplay(parts, definitions, namespace=parts.client.only, limit=limit).live()
    if isinstance(source, Run):
        parts = source._calls.open()
        summary = JudgementSummary()
        summary.add(DryReplay(parts, definitions, limit=limit).one(source.id))
        return summary
    path = os.fspath(source)
    if not os.path.exists(path):
        raise BadOption(option="source", value=path, why="there is no such file")
    with opened(path, create=False, codec=codec, namespace=None) as database:
        return database.dry_replay(definitions, limit=limit).all()


def _definitions_of(code: Any) -> dict[str, Definition]:
    if isinstance(code, str | os.PathLike):
        code = _module(os.fspath(code))
    if isinstance(code, ModuleType):
        candidates = list(vars(code).values())
    elif is_definition(code):
        candidates = [code]
    else:
        candidates = list(code)
    definitions = {value.name: value for value in candidates if is_definition(value)}
    if not definitions:
        why = "pass a module with workflows, its name, or workflows"
        raise BadOption(option="code", value=str(code), why=why)
    return definitions


def _module(name: str) -> ModuleType:
    """Import a module by its dotted name or the path of its file."""
    if not name.endswith(".py"):
        return importlib.import_module(name)
    path = Path(name).resolve()
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(path):
            return module
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _objections(report: JudgementSummary) -> Iterable[str]:
    yield f"the code does not fit {len(report.objections)} of {report.judged} recorded runs"
    yield from map(_objection, report.objections[:10])
    yield from report.left_out


def _objection(judgement: Judgement) -> str:
    verdict = judgement.verdict.value
    return f"run {judgement.run_id} of {judgement.workflow} {verdict}: {detail_of(judgement)}"
