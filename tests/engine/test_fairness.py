"""Shares, drained lanes and gathered starts, as users see them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast import step, workflow
from holdfast.errors import BadOption, LaneDraining
from holdfast.testing import internals
from holdfast.testing.lab import Lab

began: list[str] = []


@step
async def note(name: str) -> str:
    began.append(name)
    return name


@workflow(lane="shared")
async def noted(name: str) -> str:
    return await note(name)


@workflow(lane="shared")
async def indexed(words: list[str]) -> int:
    return len(words)


@pytest.fixture
def lab(database, clock):
    began.clear()
    with Lab(database, clock=clock) as lab:
        yield lab
        assert lab.engine.database.check() == []


def test_shares_take_turns_in_a_lane_that_is_full(lab):
    lab.engine.lanes.set("shared", concurrency=1, paused=True)
    for name in ("a1", "a2", "a3", "b1", "b2"):
        lab.start(noted, name, share=name[0])
    lab.engine.lanes.set("shared", concurrency=1, paused=False)
    lab.settle()

    assert began == ["a1", "b1", "a2", "b2", "a3"]


def test_a_paused_lane_begins_nothing_and_a_drained_one_takes_nothing(lab):
    waiting = lab.start(noted, "one", delay="1m")
    lab.engine.lanes.set("shared", draining=True)

    with pytest.raises(LaneDraining):
        lab.start(noted, "two")
    assert lab.finish(waiting) == "one"
    lab.engine.lanes.resume("shared")

    assert lab.run_to_end(noted, "three") == "three"


def test_why_names_who_has_the_places_of_a_share_and_since_when(lab):
    lab.engine.lanes.set("shared", per_share=0)
    run = lab.start(noted, "one", share="customer 7")
    lab.settle()

    assert (
        run.why().reason == "the lane shared lets no run of a share begin: its limit per share is 0"
    )
    assert run.why().remedy == "holdfast lanes set shared --per-share 1"


def test_a_rate_holds_in_every_window_and_why_says_when_one_more_may_begin(lab):
    lab.engine.lanes.set("shared", rate="5/2m", rate_per_share="2/1m")
    runs = [lab.start(noted, f"{share}{n}", share=share) for n in range(4) for share in "ab"]
    lab.settle()

    assert began == ["a0", "b0", "a1", "b1"]
    why = runs[-1].why()
    assert why.reason.startswith(
        "the share b in the lane shared has used its rate of 2/m; one more may begin at "
    )
    assert why.reason.endswith("(in 1m)")
    assert why.remedy == "holdfast lanes set shared --rate-per-share 4/m"

    lab.advance("1m")
    lab.settle()

    assert began[4:] == ["a2"]
    why = runs[-1].why()
    assert why.reason.startswith(
        "the lane shared has used its rate of 5/2m; one more may begin at "
    )
    assert why.remedy == "holdfast lanes set shared --rate 10/2m"
    assert [lab.finish(run) for run in runs] == [f"{share}{n}" for n in range(4) for share in "ab"]
    times = sorted(run.started_at for run in lab.engine.runs())
    pairs = zip(times, times[5:], strict=False)
    assert all(late - early >= timedelta(minutes=2) for early, late in pairs)


def test_starts_that_come_in_a_rush_are_one_run_with_the_last_input(lab):
    runs = [
        lab.start(noted, f"draft {n}", key="doc 7", debounce="5s", max_wait="1m") for n in range(5)
    ]

    assert len({run.id for run in runs}) == 1
    assert lab.finish(runs[0]) == "draft 4"
    assert began == ["draft 4"]
    assert lab.start(noted, "again", key="doc 7", debounce="5s").id != runs[0].id


def test_starts_are_gathered_into_one_run_with_all_items(lab):
    runs = [lab.start(indexed, f"word {n}", key="index", batch=3, within="2s") for n in range(4)]
    lab.settle()

    assert len({run.id for run in runs[:3]}) == 1
    assert lab.finish(runs[0]) == 3
    assert lab.finish(runs[3]) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"debounce": "5s"},
        {"key": "k", "debounce": "5s", "batch": 3},
        {"key": "k", "batch": 3},
        {"key": "k", "batch": 0, "within": "1s"},
        {"key": "k", "debounce": "5s", "delay": "1s"},
        {"key": "k", "max_wait": "5s"},
        {"share": ""},
    ],
)
def test_a_start_that_cannot_be_gathered_is_refused(lab, options):
    with pytest.raises(BadOption):
        lab.start(noted, "one", **options)

    assert list(lab.engine.runs()) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"per_share": -1},
        {"per_share": 1.5},
        {"rate_per_share": "many"},
        {"weights": {"a": "heavy"}},
        {"weights": {"a": 0}},
        {"weights": {"": 1}},
    ],
)
def test_limits_that_make_no_sense_are_refused(lab, settings):
    with pytest.raises(BadOption):
        lab.engine.lanes.set("shared", **settings)

    assert internals(lab.engine).store.lanes.all() == []


def test_items_that_are_too_large_for_a_row_are_gathered_too(lab):
    large = "x" * 200_000
    runs = [lab.start(indexed, large, key="index", batch=2, within="2s") for _ in range(2)]
    drafts = [lab.start(noted, large + str(n), key="doc 7", debounce="5s") for n in range(2)]

    assert len({run.id for run in runs}) == 1
    assert lab.finish(runs[0]) == 2
    assert lab.finish(drafts[1]) == large + "1"
