"""What keeps a pending run from being claimed."""

from __future__ import annotations

import pytest

from holdfast.core.sessions import Lane
from holdfast.store.lanes.operations import SetLane

SECOND = 1_000_000


def kinds(found):
    return [blocker.kind for blocker in found.blockers]


def test_a_ready_run_says_who_claims_it(bench):
    bench.start()
    bench.worker("w1")

    explanation = bench.why()

    assert explanation.status == "pending"
    assert (
        explanation.reason == "it is ready: worker w1 (pid 77 on elsewhere) claims it in a moment"
    )
    assert explanation.blockers[0].holder == "w1"
    assert explanation.remedy is None


def test_without_any_worker_it_says_how_to_start_one(bench):
    bench.start()

    explanation = bench.why()

    assert explanation.reason.startswith("no worker is alive")
    assert explanation.remedy == "holdfast worker MODULE"


def test_a_worker_that_died_is_named_when_none_is_alive(bench):
    bench.start()
    bench.worker("w1")
    bench.clock.advance("1m")

    explanation = bench.why()

    assert explanation.reason.startswith("no worker is alive")
    assert "worker w1 (pid 77 on elsewhere) is gone" in explanation.blockers[1].text


@pytest.mark.parametrize(
    "offer, run, nobody, near, remedy",
    [
        (
            {"workflows": {"mail": None}},
            {},
            "the workflow shop",
            "does not know the workflow, only mail",
            "holdfast worker MODULE",
        ),
        (
            {"workflows": {"shop": ["2"]}},
            {},
            "version 1 of shop",
            "only 2 of the versions",
            "holdfast worker MODULE",
        ),
        (
            {"lanes": ["a", "b"]},
            {"lane": "slow"},
            "the lane slow",
            "only a, b of the lanes",
            "holdfast worker MODULE --lane slow",
        ),
        (
            {"capabilities": ["gpu"]},
            {"capabilities": ("fpga", "gpu")},
            "the capability fpga",
            "lacks fpga and offers gpu",
            "holdfast worker MODULE --capability fpga,gpu",
        ),
        (
            {"namespace": "acme"},
            {},
            "the namespace default",
            "serves only the namespace acme",
            "holdfast worker MODULE",
        ),
    ],
)
def test_what_nobody_serves_is_named_and_who_comes_near(bench, offer, run, nobody, near, remedy):
    bench.worker("w1", **offer)
    bench.start(**run)

    explanation = bench.why()

    assert f"no live worker serves {nobody}" in explanation.reason
    assert near in explanation.blockers[1].text
    assert explanation.blockers[1].holder == "w1"
    assert explanation.remedy == remedy


def test_two_workers_that_serve_half_each_do_not_serve(bench):
    bench.worker("w1", lanes=["fast"], capabilities=["gpu"])
    bench.worker("w2", lanes=["slow"])
    bench.start(lane="slow", capabilities=("gpu",))

    explanation = bench.why()

    assert (
        "the lane slow, the namespace default, the capability gpu, all at once"
        in explanation.reason
    )


def test_a_paused_lane_is_the_blocker(bench):
    bench.worker()
    bench.do(SetLane(Lane(name="mail", paused=True)))
    bench.start(lane="mail")

    explanation = bench.why()

    assert explanation.reason == "the lane mail is paused"
    assert explanation.remedy == "holdfast lanes set mail --unpause"


def test_a_full_lane_names_who_holds_its_places(bench):
    bench.worker()
    bench.do(SetLane(Lane(name="mail", concurrency=1)))
    bench.start("r0", lane="mail")
    bench.claim()
    bench.start(lane="mail")

    explanation = bench.why()

    assert (
        explanation.reason
        == "all 1 places of the lane mail are taken by r0 (worker w1, since 2026-01-01 00:00:00"
        " UTC)"
    )
    assert explanation.blockers[0].holder == "r0"
    assert explanation.remedy == "holdfast lanes set mail --concurrency 2"


def test_a_closed_lane_says_so(bench):
    bench.worker()
    bench.do(SetLane(Lane(name="mail", concurrency=0)))
    bench.start(lane="mail")

    assert bench.why().reason == "the lane mail lets no run begin: its concurrency is 0"


def test_a_spent_rate_says_until_when(bench):
    bench.worker()
    bench.do(SetLane(Lane(name="mail", rate_limit=1, rate_per=60 * SECOND)))
    bench.start("r0", lane="mail")
    bench.claim()
    bench.start(lane="mail")

    explanation = bench.why()

    assert explanation.reason.startswith(
        "the lane mail has used its rate of 1/m; one more may begin at 2026-01-01 00:01:00 UTC"
        " (in 1m)"
    )
    assert explanation.blockers[0].until == bench.clock.now() + 60 * SECOND
    assert explanation.remedy == "holdfast lanes set mail --rate 2/m"


def test_busy_workers_are_named(bench):
    bench.worker(concurrency=1)
    bench.start("r0")
    bench.claim()
    bench.start()

    explanation = bench.why()

    assert explanation.reason == "all workers that serve it are busy: w1 (1 of 1)"
    assert explanation.remedy == "holdfast worker MODULE"


def test_a_delayed_run_says_until_when(bench):
    bench.worker()
    bench.start(available_at=bench.clock.now() + 3600 * SECOND)

    explanation = bench.why()

    assert explanation.reason == "it may not begin before 2026-01-01 01:00:00 UTC (in 1h)"
    assert kinds(explanation) == ["delay"]
    assert explanation.remedy == "holdfast waits release r1"


def test_a_delayed_run_warns_that_nobody_will_serve_it(bench):
    bench.start(available_at=bench.clock.now() + 3600 * SECOND)

    explanation = bench.why()

    assert kinds(explanation) == ["delay", "worker"]
    assert explanation.remedy == "holdfast worker MODULE"


def test_a_delay_that_has_passed_is_none(bench):
    bench.worker()
    bench.start(available_at=bench.clock.now() + SECOND)
    bench.clock.advance("2s")

    assert bench.why().reason.startswith("it is ready: worker w1")


def test_a_deadline_is_told(bench):
    bench.worker()
    bench.start(deadline=bench.clock.now() + 60 * SECOND)

    assert bench.why().blockers[-1].text == "its deadline is 2026-01-01 00:01:00 UTC (in 1m)"


def test_a_holder_that_names_lanes_alone_can_take_whatever_is_in_them(bench):
    bench.start(lane="gpu")
    bench.worker("render-1", workflows=None, lanes=["gpu"])

    assert (
        bench.why().reason
        == "it is ready: worker render-1 (pid 77 on elsewhere) claims it in a moment"
    )


def test_a_holder_of_another_lane_is_near(bench):
    bench.start(lane="gpu", capabilities=("cuda",))
    bench.worker("render-1", workflows=None, lanes=["cpu"], capabilities=["cuda"])

    explanation = bench.why()

    assert "no live worker serves the lane gpu" in explanation.reason
    assert "it serves only cpu of the lanes" in explanation.blockers[1].text
