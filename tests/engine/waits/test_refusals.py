"""Waits and conditions that cannot be are refused."""

from __future__ import annotations

import pytest

from holdfast import sync, workflow
from holdfast.errors import BadCondition, BadOption, NotEncodable, NotInWorkflow, RunFailed
from holdfast.waits import Wait, all_of, any_of, count, create_wait, matching, wait_for
from tests.engine.waits.workflows import callback, handed_out, parked


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: all_of(), BadCondition),
        (lambda: count(3, "a", "b", distinct="waits"), BadCondition),
        (lambda: matching("a", ["x"]), BadCondition),
        (lambda: matching(all_of("a"), {}), BadCondition),
        (lambda: matching("a", name="b"), BadCondition),
        (lambda: any_of(7), BadCondition),
        (lambda: all_of(all_of(all_of(all_of(all_of("a"))))), BadCondition),
        (lambda: all_of(""), BadCondition),
    ],
)
def test_a_condition_that_cannot_be_is_refused_where_it_is_made(make, error):
    with pytest.raises(error):
        make()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timeout": "1h", "on_timeout": "explode"}, "on_timeout"),
        ({"on_timeout": "escalate"}, "no timeout"),
        ({"timeout": "soon"}, "BadDuration"),
    ],
)
def test_a_wait_that_cannot_be_is_refused_and_nothing_is_written(engine, options, error):
    @workflow
    async def wrong() -> None:
        await wait_for("a", **options)

    run = engine.start(wrong)
    with pytest.raises(RunFailed, match=error):
        run.result(timeout=20)
    assert ([event.kind for event in run.history()], engine.waits.list(run.id)) == (
        ["run_failed"],
        [],
    )


def test_a_wait_belongs_to_its_run(engine):
    kept: list[Wait] = []

    @workflow
    async def giving() -> None:
        kept.append(await create_wait("mine"))

    @workflow
    async def taking() -> None:
        await wait_for(kept[0])

    engine.start(giving).result(timeout=20)
    with pytest.raises(RunFailed, match="another run"):
        engine.start(taking).result(timeout=20)


def test_outside_a_workflow_there_is_nothing_to_wait_with():
    for call in (
        lambda: wait_for("a"),
        lambda: create_wait("a"),
        lambda: sync.waits.wait_for("a"),
        lambda: sync.waits.create_wait("a"),
    ):
        with pytest.raises(NotInWorkflow):
            call()


def test_bad_input_from_outside_is_refused_by_name(engine):
    run = parked(engine, callback)
    wait_id, token = handed_out(engine, run)
    for options in ({"name": ""}, {"source": "a\nb"}, {"key": "x" * 201}, {"payload": object()}):
        with pytest.raises((BadOption, NotEncodable)) as refused:
            engine.waits.deliver(wait_id, token, **options)
        assert token.split(".")[2] not in str(refused.value)
    with pytest.raises(BadOption):
        engine.waits.deliver(None, None)
    assert engine.run(run.id).status == "waiting"
