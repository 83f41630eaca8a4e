"""Who or what cancelled a run: a person, its holder, its parent, its deadline."""

from __future__ import annotations

import pytest

from holdfast.errors import BadOption
from tests.engine.waiting import one_lease as one


@pytest.fixture
def holder(idle):
    with idle.tasks.worker("render-1", workflows=["render"], ttl="1d") as leases:
        yield leases


@pytest.fixture
def run(idle):
    return idle.start("render", 1)


def canceller(run):
    return run.record.cancel_cause, run.record.cancelled_by


def test_a_run_that_never_began_says_who_cancelled_it(idle, run):
    idle.cancel(run.id, "ordered twice", by="ann")

    assert canceller(run) == ("request", "ann")
    assert run.history()[-1].data == {"by": "ann"}
    assert "it was cancelled by ann: ordered twice" in str(run.why())


def test_a_leased_run_says_who_asked_it_to_stop_until_it_has_ended(idle, holder, run):
    lease = one(holder)
    run.cancel("ordered twice", by="ann")
    assert "asked to stop by ann (ordered twice)" in str(run.why())
    lease.cancel("as asked")

    assert (run.status, *canceller(run)) == ("cancelled", "request", "ann")
    assert run.record.cancel_reason == "ordered twice"


def test_a_run_that_its_holder_cancels_says_so(idle, holder, run):
    one(holder).cancel("no use")

    assert (run.status, *canceller(run)) == ("cancelled", "holder", None)
    assert "it was cancelled by its holder: no use" in str(run.why())
    assert idle.database.check() == []


def test_the_end_by_force_says_who_forced_it(idle, holder, run):
    one(holder)
    run.cancel("now", force=True, by="ann")

    assert (run.status, *canceller(run)) == ("cancelled", "request", "ann")


def test_a_replay_forgets_who_cancelled(idle, run):
    run.cancel(by="ann")
    idle.replay(run.id)

    assert canceller(run) == (None, None)


def test_a_name_that_is_none_is_refused(run):
    for wrong in (7, "", "a\nb"):
        with pytest.raises(BadOption):
            run.cancel(by=wrong)
    assert run.status == "pending"
