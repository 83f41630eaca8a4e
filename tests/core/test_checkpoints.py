"""How a run continues from a checkpoint, and which checkpoints a replay voids."""

from __future__ import annotations

import msgspec

from holdfast.core.events import Event, EventKind
from holdfast.core.history import HistoryProgress, StepLives, StoredCheckpoint, load
from holdfast.core.history import voided_by_replay as voided


def checkpoint(seq: int, **progress: object) -> Event:
    data = StoredCheckpoint(
        state=msgspec.Raw(b'{"at":7}'),
        progress=HistoryProgress(**progress),
        lives=StepLives(replays=1, kept={"a": 1}),
        replays=2,
    )
    return Event(EventKind.CHECKPOINT_WRITTEN, data=msgspec.json.encode(data), seq=seq)


def timer(step: str, seq: int, until: int) -> Event:
    return Event(EventKind.TIMER_SET, step, msgspec.json.encode({"until": until}), seq=seq)


def test_a_history_from_a_checkpoint_on_continues_its_progress():
    done = Event(EventKind.STEP_COMPLETED, "b", seq=12)
    history = [checkpoint(10, until={"t": 5}, steps=4, had_children=True), timer("u", 11, 6), done]

    loaded = load(history)

    assert (loaded.state, loaded.events) == (b'{"at":7}', history[1:])
    assert (loaded.progress.until, loaded.progress.steps) == ({"t": 5, "u": 6}, 5)
    assert loaded.progress.had_children
    assert (loaded.lives.of("a"), loaded.lives.of("b"), loaded.replays) == (0, 1, 2)
    assert loaded.base is not None and loaded.base.until == {"t": 5}


def test_a_whole_history_is_read_for_the_progress_and_the_checkpoint_for_the_state():
    history = [timer("t", 1, 5), checkpoint(2, until={"t": 99}), timer("u", 3, 6)]

    loaded = load(history)

    assert (loaded.state, loaded.events) == (b'{"at":7}', history[2:])
    assert (loaded.progress.until, loaded.base) == ({"t": 5, "u": 6}, None)


def test_a_void_checkpoint_does_not_count():
    replayed = Event(EventKind.RUN_REPLAYED, data=b'{"void":[3]}', seq=4)
    history = [Event(EventKind.STEP_COMPLETED, "a", seq=1), checkpoint(2), checkpoint(3), replayed]

    loaded = load(history)

    assert loaded.checkpoint is history[1]
    assert loaded.events == [replayed]


def test_a_replay_voids_the_checkpoints_after_a_void_outcome():
    failed = Event(EventKind.STEP_FAILED, "a", seq=2, error=b"{}")

    assert voided([checkpoint(1), failed, checkpoint(3)], None) == [2, 3]


def test_a_retry_before_a_checkpoint_leaves_it_as_it_is():
    """The program is not fed the retry: its state does not depend on it."""
    data = msgspec.json.encode({"until": 1})
    retried = Event(EventKind.STEP_RETRIED, "a", data, seq=1)
    failed = Event(EventKind.STEP_FAILED, "a", seq=3, error=b"{}")

    assert voided([retried, checkpoint(2), failed], None) == [1, 3]


def test_only_open_commands_are_kept():
    progress = HistoryProgress().read([timer("t", 1, 5), timer("u", 2, 6)])
    copy = progress.copy()

    copy.keep_only({"u"})

    assert (copy.until, progress.until) == ({"u": 6}, {"t": 5, "u": 6})
