"""Setters keep the settings that a call does not name, also those that another process changes."""

from __future__ import annotations

from contextlib import closing

import pytest

import holdfast
from holdfast import workflow
from holdfast.testing import internals


@workflow(name="merged_settings")
async def keyed(key: str = "k") -> str:
    return key


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("feature", ["lanes", "schedules", "budgets", "retention"])
def test_a_setting_that_changes_while_another_is_set_is_kept(
    database, monkeypatch, feature, existing
):
    read, first, meanwhile, wanted, expected = {
        "lanes": (
            "all",
            lambda engine: engine.lanes.set("llm", per_share=1),
            lambda engine: engine.lanes.set("llm", rate="10/s", weights={"gold": 3}),
            lambda engine: engine.lanes.set("llm", concurrency=3, weights={"tin": 2}),
            lambda view: (
                (view.rate, view.concurrency, view.weights) == ("10/s", 3, {"gold": 3, "tin": 2})
            ),
        ),
        "schedules": (
            "get",
            lambda engine: engine.schedules.set("llm", keyed, interval="1h", args=("k",)),
            lambda engine: engine.schedules.set(
                "llm", keyed, interval="1h", args=("k",), overlap="queue"
            ),
            lambda engine: engine.schedules.set("llm", keyed, interval="2h", priority=7),
            lambda view: (view.overlap, view.priority) == ("queue", 7),
        ),
        "budgets": (
            "get",
            lambda engine: engine.budgets.set("llm", {"calls": 1}),
            lambda engine: engine.budgets.set("llm", {"calls": 5}, on_breach="fail"),
            lambda engine: engine.budgets.set("llm", {"tokens": 7}, reset="day"),
            lambda view: (view.on_breach, sorted(view.dimensions)) == ("fail", ["calls", "tokens"]),
        ),
        "retention": (
            "rules",
            lambda engine: engine.retention.set("llm", older_than="1d"),
            lambda engine: engine.retention.set("llm", older_than="2d", status="failed"),
            lambda engine: engine.retention.set("llm", keep_last=7),
            lambda view: (view.status, view.keep_last) == (["failed"], 7),
        ),
    }[feature]
    with (
        closing(holdfast.Engine(database, workflows=[keyed])) as engine,
        closing(holdfast.Engine(database, workflows=[keyed])) as other,
    ):
        if existing:
            first(engine)
        queries = getattr(internals(engine).store, feature)
        original = getattr(queries, read)
        interruptions = [meanwhile]

        def interrupted(*args):
            stored = original(*args)
            if interruptions:
                interruptions.pop()(other)
            return stored

        monkeypatch.setattr(queries, read, interrupted)

        wanted(engine)

        assert expected(getattr(engine, feature).get("llm"))
        assert engine.database.check() == []
