"""Timer start events: the schedules of the version that new runs use."""

from __future__ import annotations

import pytest

from holdfast.errors import BadSchedule
from holdfast.testing.lab import Lab
from tests.bpmn.models import flows, process_of, timer


def timed(kind, text, element="s", name="Look"):
    start = f'<startEvent id="{element}">{timer(kind, text)}</startEvent>'
    return process_of(
        f'{start}<userTask id="u" name="{name}"/>' + flows(f"{element} u"), id="order"
    )


def rules(lab):
    return {each.name: (each.version, each.rule) for each in lab.engine.schedules.list()}


@pytest.fixture
def lab():
    with Lab() as lab:
        yield lab


def test_a_cycle_starts_runs_whether_or_not_earlier_ones_have_ended(lab):
    lab.engine.models.deploy(timed("timeCycle", "R3/PT10M"))

    lab.advance("PT25M")
    assert [task.element for task in lab.engine.models.tasks()] == ["u", "u"]
    lab.advance("PT2H")
    assert len(lab.engine.models.tasks()) == 3
    assert {run.workflow for run in lab.engine.runs()} == {"order"}


@pytest.mark.parametrize(
    ("kind", "text"), [("timeDuration", "PT10M"), ("timeDate", "2026-01-01T00:10:00Z")]
)
def test_a_duration_and_a_date_start_one_run(lab, kind, text):
    lab.engine.models.deploy(timed(kind, text))

    lab.advance("PT9M")
    assert lab.engine.runs().count() == 0
    lab.advance("PT3H")
    assert lab.engine.runs().count() == 1


def test_a_date_that_has_passed_starts_nothing(lab):
    lab.engine.models.deploy(timed("timeDate", "2025-01-01T00:00:00Z"))

    assert rules(lab) == {}


def test_the_version_that_new_runs_use_has_the_schedules(idle, clock):
    def stored():
        clock.advance("1s")
        return {each.name: each.version for each in idle.schedules.list()}

    idle.models.deploy(timed("timeCycle", "R/PT10M"))
    assert stored() == {"order.s": "1"}
    idle.models.deploy(timed("timeCycle", "R/PT10M", name="Read"))
    assert stored() == {"order.s": "2"}
    idle.models.deploy(timed("timeCycle", "R/PT5M", element="t"))
    assert stored() == {"order.t": "3"}
    idle.models.deploy(timed("timeCycle", "R/PT10M"))
    assert stored() == {"order.s": "1"}
    idle.models.deprecate("order", 1)
    assert stored() == {"order.t": "3"}
    idle.models.activate("order", 2)
    assert stored() == {"order.s": "2"}
    for version in (2, 3):
        idle.models.deprecate("order", version)
    assert stored() == {}


def test_a_schedule_of_another_origin_keeps_its_name(idle):
    idle.models.deploy(timed("timeCycle", "R/PT10M"))
    idle.schedules.pause("order.s", "inventory")

    with pytest.raises(BadSchedule):
        idle.schedules.remove("order.s")
    with pytest.raises(BadSchedule):
        idle.schedules.set("order.s", "order", interval="1h")
    idle.models.deploy(timed("timeCycle", "R/PT5M", element="t"))
    idle.schedules.set("order.s", "order", interval="1h")
    with pytest.raises(BadSchedule):
        idle.models.deploy(timed("timeCycle", "R/PT10M", name="Read"))

    assert [model.version for model in idle.models.list()] == [1, 2]
    assert [each.name for each in idle.schedules.list()] == ["order.s", "order.t"]
