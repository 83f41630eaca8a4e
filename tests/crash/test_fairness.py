"""Shares and gathered starts, killed at each commit."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from datetime import timedelta
from functools import partial

import pytest

from holdfast import gather, start, step, workflow
from holdfast.core.sessions import Lane
from holdfast.errors import EngineClosed
from holdfast.store.lanes.operations import SetLane
from holdfast.store.runs.operations import EndSession
from holdfast.testing.clock import VirtualClock
from holdfast.testing.faults import AFTER, BEFORE, Crash, Fault, FaultyStore
from holdfast.testing.lab import Lab, hasty_store
from holdfast.testing.postgres import _WIPE
from holdfast.testing.recorder import CommitRecorder


def narrow(store):
    limits = {
        "rate_limit": 3,
        "rate_per": 90_000_000,
        "share_rate_limit": 1,
        "share_rate_per": 60_000_000,
    }
    store.apply([SetLane(Lane(name="narrow", concurrency=2, per_share=1, **limits))])
    return store


def keeps_its_rates(lab):
    """In no window did more begin than may."""
    runs = [run for run in lab.engine.runs() if run.lane == "narrow" and run.started_at is not None]
    for began, limit, per in [([run.started_at for run in runs], 3, 90)] + [
        ([run.started_at for run in runs if run.share == share], 1, 60) for share in "ab"
    ]:
        assert all(
            late - early >= timedelta(seconds=per)
            for early, late in zip(sorted(began), sorted(began)[limit:], strict=False)
        )


@step
async def touch(number: int) -> int:
    return number


@workflow(lane="narrow")
async def one_of_a_share(number: int) -> int:
    return await touch(number)


@workflow
async def many_of_two_shares() -> int:
    handles = [await start(one_of_a_share, n, share="ab"[n % 2]) for n in range(4)]
    return sum(await gather(*(handle.result() for handle in handles)))


def test_places_come_back_and_every_run_gets_its_turn_within_the_rates(crashing):
    report = crashing(many_of_two_shares, wrap=narrow, check=keeps_its_rates)

    assert report.boundaries > 5


@workflow
async def gathered_words(words: list[str]) -> list[str]:
    return words


@workflow
async def last_draft(text: str) -> str:
    return text


WORDS = ["kelp", "rock", "tide"]


def gather_words(lab, words, told):
    """Start with each word, both ways, and note for which of them that was heard of."""
    for word in words:
        lab.start(gathered_words, word, key="index", batch=2, within="5s")
        lab.start(last_draft, word, key="doc", debounce="1s", max_wait="1m")
        told.append(word)


def gathers_in_spite_of(database, plan, clear):
    """Gather, die as planned, go on with what is left, and see that no word is lost, and only the
    one in doubt comes twice."""
    clear()
    clock, told = VirtualClock(), []
    store = FaultyStore(hasty_store(database, clock), CommitRecorder(), plan)
    lab = Lab(database, clock=clock, store=store, workflows=[gathered_words, last_draft])
    try:
        gather_words(lab, WORDS, told)
        for run in lab.engine.runs():
            lab.finish(run.id)
    except (Crash, EngineClosed):
        lab.abandon()
    else:
        lab.close()
    real = hasty_store(database, clock)
    real.apply([EndSession(session.id, crashed=True) for session in real.sessions.all()])
    real.close()
    in_doubt = WORDS[len(told) : len(told) + 1]
    with Lab(database, clock=clock, workflows=[gathered_words, last_draft]) as lab:
        gather_words(lab, WORDS[len(told) :], told)
        results = {run.id: (run.workflow, lab.finish(run.id)) for run in lab.engine.runs()}
        assert lab.engine.database.check() == []
    found = Counter(
        word
        for workflow, words in results.values()
        if workflow == "gathered_words"
        for word in words
    )
    assert set(found) == set(WORDS)
    assert all(count == 1 or (count == 2 and word in in_doubt) for word, count in found.items()), (
        plan,
        found,
    )
    drafts = [run_id for run_id, (workflow, _) in results.items() if workflow == "last_draft"]
    assert results[max(drafts)][1] == WORDS[-1]
    return store.count


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_gathered_starts_are_durable_when_they_return(request, tmp_path, kind):
    with ExitStack() as stack:
        if kind == "sqlite":
            database = str(tmp_path / "gather.db")
            clear = lambda: [path.unlink() for path in tmp_path.glob("gather.db*")]  # noqa: E731
        else:
            server = request.getfixturevalue("postgres_server")
            database = stack.enter_context(server.lend())
            clear = partial(server.execute, _WIPE, database)
        commits = gathers_in_spite_of(database, None, clear)
        assert commits > 6
        for at in range(2, commits + 1):  # the first one opens a session
            for side in (BEFORE, AFTER) if kind == "sqlite" else (BEFORE if at % 2 else AFTER,):
                gathers_in_spite_of(database, Fault(at, side), clear)
