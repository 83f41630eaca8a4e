"""A task admits work outside any run to a lane: it shares the places and the rate with its runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast import Engine, workflow


@workflow(name="inside the lane", lane="llm")
async def inside() -> str:
    return "done"


def test_work_outside_any_run_is_admitted_to_a_lane_with_its_runs(database):
    with Engine(database, work=False) as engine:
        engine.lanes.set("llm", concurrency=1, rate="2/h")
        engine.start("admission", id="call-1", lane="llm")
        gateway = engine.tasks.worker("gateway", workflows=["admission"], lanes=["llm"])
        other = engine.tasks.worker("other", workflows=["inside the lane"])
        with gateway as places, other as leases:
            (place,) = places.claim()
            run = engine.start(inside)

            # The same id is the same place, and the lane has no second one.
            assert engine.start("admission", id="call-1", lane="llm").status == "running"
            assert leases.claim() == []
            assert "taken by call-1 (worker gateway" in run.why().reason

            place.complete()
            (lease,) = leases.claim()
            lease.complete("done")

            # Both count for the rate of the lane, which tells when one more may begin.
            engine.start("admission", id="call-2", lane="llm")
            assert places.claim() == []
            until = engine.why("call-2").blockers[0].until
            assert until - datetime.now(UTC) > timedelta(minutes=30)
