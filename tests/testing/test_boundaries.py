"""An engine that dies where it is told, and what may still be done with it then."""

from __future__ import annotations

from contextlib import suppress

import pytest

from holdfast import workflow
from holdfast.errors import EngineClosed
from holdfast.testing import Lab
from holdfast.testing.boundaries import AFTER, BEFORE, Boundaries, Crash, Plan
from holdfast.testing.clock import VirtualClock
from holdfast.testing.harness import hasty_store
from holdfast.testing.ledger import Ledger


@workflow
async def short_life() -> str:
    return "lived"


def opened(tmp_path, plan):
    clock = VirtualClock()
    path = str(tmp_path / f"{plan.at}.db")
    store = Boundaries(hasty_store(path, clock), Ledger(), plan)
    return store, Lab(path, clock=clock, store=store, workflows=[short_life])


@pytest.mark.parametrize("side", [BEFORE, AFTER])
@pytest.mark.parametrize("at", [2, 3, 4])
def test_what_died_can_be_closed(tmp_path, at, side):
    store, lab = opened(tmp_path, Plan(at, side))
    with suppress(Crash, EngineClosed):
        lab.start(short_life)
        lab.settle()
    lab.close()  # its last word is a commit, too
    assert store.dead


def test_whom_nothing_has_befallen_is_spared_for_good(tmp_path):
    store, lab = opened(tmp_path, Plan(2, BEFORE))
    assert store.spare()
    assert lab.run_to_end(short_life) == "lived"
    lab.close()
    assert store.count >= 2 and not store.dead


def test_the_dead_are_not_spared(tmp_path):
    store, lab = opened(tmp_path, Plan(2, BEFORE))
    with pytest.raises(Crash):
        lab.start(short_life)
    assert not store.spare() and store.dead
    lab.close()
