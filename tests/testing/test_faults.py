"""An engine that dies where it is told, and what may still be done with it then."""

from __future__ import annotations

from contextlib import suppress

import pytest

from holdfast import workflow
from holdfast.core.step_info import StepInfo
from holdfast.errors import EngineClosed
from holdfast.testing import Lab
from holdfast.testing.clock import VirtualClock
from holdfast.testing.faults import AFTER, BEFORE, ZOMBIE, Crash, Fault, FaultyStore
from holdfast.testing.lab import hasty_store
from holdfast.testing.recorder import CommitRecorder


@workflow
async def short_life() -> str:
    return "lived"


def opened(tmp_path, plan):
    clock = VirtualClock()
    path = str(tmp_path / f"{plan.at}.db")
    store = FaultyStore(hasty_store(path, clock), CommitRecorder(), plan)
    return store, Lab(path, clock=clock, store=store, workflows=[short_life])


@pytest.mark.parametrize("side", [BEFORE, AFTER])
@pytest.mark.parametrize("at", [2, 3, 4])
def test_what_died_can_be_closed(tmp_path, at, side):
    store, lab = opened(tmp_path, Fault(at, side))
    with suppress(Crash, EngineClosed):
        lab.start(short_life)
        lab.settle()
    lab.close()  # its last word is a commit, too
    assert store.dead


def test_whom_nothing_has_befallen_is_spared_for_good(tmp_path):
    store, lab = opened(tmp_path, Fault(2, BEFORE))
    assert store.spare()
    assert lab.run_to_end(short_life) == "lived"
    lab.close()
    assert store.count >= 2 and not store.dead


def test_the_dead_are_not_spared(tmp_path):
    store, lab = opened(tmp_path, Fault(2, BEFORE))
    with pytest.raises(Crash):
        lab.start(short_life)
    assert not store.spare() and store.dead
    lab.close()


def test_who_was_taken_over_at_the_last_moment_is_not_spared_either(tmp_path):
    store, lab = opened(tmp_path, Fault(2, ZOMBIE))
    lab.start(short_life)
    assert not store.spare() and store.lost
    lab.close()


def test_a_thread_that_comes_to_its_step_when_its_process_is_dead_is_gone(tmp_path):
    ledger = CommitRecorder()
    ledger.done.add(("r1", "pay"))  # by somebody else, meanwhile
    ledger.dead.add(0)

    with pytest.raises(EngineClosed):
        ledger.called(0, StepInfo("r1", "order", "pay", 1, 1, None))
    assert (ledger.wrong, ledger.calls) == ([], {})


def test_an_engine_is_spared_while_it_is_about_to_be_taken_over(tmp_path):
    store, lab = opened(tmp_path, Fault(3, ZOMBIE))
    real, told = store._prepare, []

    def spared_meanwhile(batch, side):
        told.append(store.spare() if side else None)
        real(batch, side)

    store._prepare = spared_meanwhile
    assert lab.run_to_end(short_life) == "lived"
    lab.close()
    assert True in told and not store.lost
