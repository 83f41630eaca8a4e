"""Portions that are small, so that a few items are very many, and records of the portions."""

from __future__ import annotations

import pytest

from holdfast.engine.execution import commits
from holdfast.engine.execution.pending import children
from holdfast.engine.runtime import graph_stages
from holdfast.service import replay as replay_service
from holdfast.service import starts as start_service
from holdfast.store.graphs import portions
from holdfast.store.graphs import prune as graph_prune
from holdfast.store.graphs import sweep as graph_sweep
from holdfast.store.graphs.operations import AddMembers, ResolvedGraphs, WriteStagePart
from holdfast.store.runs import advance as run_advance
from holdfast.store.runs import cancel as run_cancel
from holdfast.store.runs import sessions
from holdfast.store.runs.operations import Advance, StartRuns
from holdfast.testing import internals


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(start_service, "PART", 4)
    monkeypatch.setattr(graph_stages, "PART", 10)
    monkeypatch.setattr(children, "PORTION", 3)
    monkeypatch.setattr(commits, "PORTION", 3)
    monkeypatch.setattr(replay_service, "PORTION", 3)
    monkeypatch.setattr(run_cancel, "PORTION", 4)
    monkeypatch.setattr(run_advance, "PORTION", 4)
    monkeypatch.setattr(sessions, "PORTION", 3)
    monkeypatch.setattr(portions, "PORTION", 4)
    monkeypatch.setattr(portions, "LINKS", 5)
    monkeypatch.setattr(graph_sweep, "PORTION", 4)
    monkeypatch.setattr(graph_prune, "ROWS", 5)


@pytest.fixture
def sizes(engine, monkeypatch):
    """How many runs, members and rows each transaction wrote."""
    found = []
    apply = internals(engine).store.apply

    def counted(batch):
        for op in batch:
            if isinstance(op, StartRuns):
                found.append(len(op.runs))
            elif isinstance(op, Advance):
                found.append(len(op.children()))
                found.append(sum(len(growth.patch.members) for growth in op.of(AddMembers)))
            elif isinstance(op, WriteStagePart):
                found.append(len(op.members))
        answers = apply(batch)
        found.extend(len(answer.born) for answer in answers if isinstance(answer, ResolvedGraphs))
        return answers

    monkeypatch.setattr(internals(engine).store, "apply", counted)
    return found
