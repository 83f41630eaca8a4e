"""Deployments with timer start events, and broadcasts: killed before and after each commit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import pytest

from holdfast.core.events import EventKind
from holdfast.service import messages
from holdfast.store.definitions.operations import DeployDefinitions, SetDefinitionState
from holdfast.store.messages.operations import BroadcastPart, SendBroadcast
from holdfast.store.runs.operations import Advance
from holdfast.testing import Lab
from holdfast.testing.clock import START, VirtualClock
from holdfast.testing.faults import AFTER, BEFORE, Fault
from holdfast.testing.recorder import CommitRecorder
from tests.bpmn.models import flows, model_of, process_of, timer
from tests.crash.stages import Stage, databases

TIMED = "crash_timed"
SIGNALS = '<signal id="a" name="crash first"/><signal id="b" name="crash second"/>'
CATCH = '<intermediateCatchEvent id="{0}"><signalEventDefinition signalRef="{0}"/>'
END = "</intermediateCatchEvent>"
BROADCASTS = model_of(
    SIGNALS
    + '<process id="crash_hearing" isExecutable="true"><startEvent id="s"/>'
    + (CATCH.format("a") + END + CATCH.format("b") + END + flows("s a", "a b"))
    + '</process><process id="crash_started" isExecutable="true"><startEvent id="s2">'
    '<signalEventDefinition signalRef="b"/></startEvent></process>'
    '<process id="crash_throwing" isExecutable="true"><startEvent id="s3"/><endEvent id="e3">'
    '<signalEventDefinition signalRef="b"/></endEvent>'
    '<sequenceFlow id="f3" sourceRef="s3" targetRef="e3"/></process>'
)
RECEIVERS = [f"h{number}" for number in range(5)]


def timed(*rules: str, element: str = "s") -> bytes:
    triggers = "".join(timer("timeCycle", rule) for rule in rules)
    return process_of(f'<startEvent id="{element}">{triggers}</startEvent>', TIMED)


def deploy_one(lab: Lab) -> None:
    lab.engine.models.deploy(timed("R/PT1H"))


def wait_until(hour: int) -> Callable[[Lab], None]:
    """Return an act that moves time to an hour: no further if it is repeated after a crash."""

    def act(lab: Lab) -> None:
        end = START + timedelta(hours=hour)
        now = START + timedelta(microseconds=lab.clock.now() - _micros(START))
        lab.advance(max(end - now, timedelta()))

    return act


def _micros(instant: datetime) -> int:
    return round(instant.timestamp() * 1_000_000)


def deploy_two(lab: Lab) -> None:
    lab.engine.models.deploy(timed("R/PT1H", "R/PT30M", element="t"))


def deprecate_it(lab: Lab) -> None:
    lab.engine.models.deprecate(TIMED, 2)


def check_schedules(lab: Lab) -> None:
    """Only the first version is active, and each of its hours has started one run."""
    schedules = lab.engine.schedules.list()
    assert [(each.name, each.version) for each in schedules] == [(f"{TIMED}.s", "1")]
    versions = sorted(run.version for run in lab.engine.runs(workflow=TIMED))
    assert versions == ["1", "1", "2", "2", "2"]


def deploy_broadcasts(lab: Lab) -> None:
    lab.engine.models.deploy(BROADCASTS)


def start_receivers(lab: Lab) -> None:
    for run_id in RECEIVERS:
        lab.engine.start("crash_hearing", {}, id=run_id)


def tell_all(lab: Lab) -> None:
    lab.engine.models.broadcast("crash first", {"first": True})


def throw_to_all(lab: Lab) -> None:
    lab.engine.start("crash_throwing", {}, id="thrower")


def check_receivers(lab: Lab) -> None:
    """Each receiver has heard each signal once, and the thrown one has started one run."""
    for run_id in RECEIVERS:
        run = lab.engine.run(run_id)
        assert run.result(timeout="60s") == {"first": True}
        kinds = [event.kind for event in run.history()]
        assert kinds.count(EventKind.MESSAGE_RECEIVED) == 2
    assert [run.status for run in lab.engine.runs(workflow="crash_started")] == ["completed"]


SCRIPTS: dict[str, list[Callable[[Lab], None]]] = {
    "schedules": [
        deploy_one,
        wait_until(1),
        deploy_two,
        wait_until(2),
        deprecate_it,
        wait_until(3),
        check_schedules,
    ],
    "broadcasts": [
        deploy_broadcasts,
        start_receivers,
        tell_all,
        throw_to_all,
        check_receivers,
    ],
}
CONCERNED = (DeployDefinitions, SetDefinitionState, BroadcastPart)


def play(database: str, script: str, plans: list[Fault]) -> CommitRecorder:
    stage = Stage(database, list(SCRIPTS[script]), plans, [], VirtualClock())
    with stage.played():
        assert stage.done == len(SCRIPTS[script])
    return stage.ledger


def is_concerned(op: object) -> bool:
    return isinstance(op, CONCERNED) or (isinstance(op, Advance) and bool(op.of(SendBroadcast)))


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(300)
def test_a_deployment_and_a_broadcast_survive_every_crash(
    kind, script, request, tmp_path, monkeypatch
):
    # Several parts of a broadcast, and a crash between them.
    monkeypatch.setattr(messages, "BroadcastPart", partial(BroadcastPart, limit=2))
    with databases(kind, request, tmp_path) as fresh:
        commits = enumerate(play(fresh(), script, []).commits, start=1)
        boundaries = [number for number, commit in commits if any(map(is_concerned, commit.batch))]
        assert len(boundaries) >= 3
        moments = (BEFORE, AFTER) if kind == "sqlite" else (AFTER,)
        for number in boundaries:
            for moment in moments:
                play(fresh(), script, [Fault(number, moment)])
