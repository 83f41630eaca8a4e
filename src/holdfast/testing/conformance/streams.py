"""Conformance of streams: the output of runs is appended, trimmed, closed and superseded."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.streams.model import (
    NewFrame,
    Output,
    Progress,
    StreamMode,
    StreamPart,
    StreamRecord,
)
from holdfast.errors import LeaseLost, StreamClosed
from holdfast.store.runs.copy_operations import ImportRun
from holdfast.store.runs.operations import Advance, EndSession, Prune, RequestCancel
from holdfast.store.store import Store
from holdfast.store.streams.operations import Appended, AppendFrames, AppendOutput, StoredFrame
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock, StoreFixture
from holdfast.testing.conformance.reading import BROKEN

_STREAM = """INSERT INTO holdfast.stream (run_id, number, step, attempt, generation, frames, said,
    kept_durable, kept_summary,
    kept_best_effort, first_seq, version, opened_at, written_at, closed_at, reason) VALUES """
_FRAME = "INSERT INTO holdfast.frame (run_id, seq, stream, kind, mode, data, at) VALUES "

BROKEN |= {
    "a_stream_belongs_to_a_run": (
        f"{_STREAM} ('none', 1, 'a', 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 'completed')"
    ),
    "a_frame_belongs_to_a_stream": f"{_FRAME} ('held', 1, 1, 'stdout', 'durable', '1', 1)",
    "the_stream_and_frame_counts_of_an_output_are_correct": (
        "INSERT INTO holdfast.output (run_id, last_seq, streams) VALUES ('held', 0, 1)"
    ),
    "a_stream_belongs_to_an_output": (
        f"{_STREAM} ('held', 1, 'a', 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 'completed')"
    ),
    "the_kept_frame_counts_of_a_stream_are_correct": (
        f"{_STREAM} ('held', 1, 'a', 1, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 1, 'completed')"
    ),
    "a_stream_has_a_reason_exactly_if_it_is_closed": (
        f"{_STREAM} ('held', 1, 'a', 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1, 1, NULL)"
    ),
    "an_open_stream_of_a_step_belongs_to_the_current_lease_of_its_run": (
        f"{_STREAM} ('waiting', 1, 'a', 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1, NULL, NULL)"
    ),
    "a_leased_task_has_at_most_one_open_stream_of_a_lease_that_it_had": (
        f"{_STREAM} ('waiting', 1, '', 1, 99, 0, 0, 0, 0, 0, 1, 0, 1, 1, NULL, NULL)"
    ),
    "a_finished_run_has_no_open_stream_of_a_step": (
        f"{_STREAM} ('completed', 1, 'a', 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1, NULL, NULL)"
    ),
}


class StreamConformance(StoreFixture):
    """Frames are appended in order by the holder of the run only."""

    def output(
        self,
        *data: bytes,
        step: str = "talk",
        attempt: int = 1,
        generation: int = 1,
        mode: str = StreamMode.DURABLE,
        progress: Progress | None = None,
        **part: Any,
    ) -> Output:
        """Return the output of one attempt of a step, with one frame per item of *data*."""
        frames = [NewFrame(0, "event", mode, payload, 7) for payload in data]
        return Output([StreamPart(step, attempt, generation, **part)], frames, progress)

    def append(self, store: Store, run: RunRecord, *data: bytes, **options: Any) -> Appended:
        options.setdefault("generation", run.generation)
        answer: Appended = self.do(
            store, AppendFrames(run.id, run.generation, self.output(*data, **options))
        )
        return answer

    def frame_data(self, store: Store, run_id: str = "r1", **options: Any) -> list[bytes]:
        return [frame.data for frame in store.streams.frames(run_id, **options)]

    def stream(self, store: Store, run_id: str = "r1") -> StreamRecord:
        (stream,) = store.streams.of_run(run_id)
        return stream

    def test_frames_come_back_as_they_were_appended(self, store: Store, clock: HandClock) -> None:
        run = self.hold(store)
        frames = [
            NewFrame(0, "stdout", StreamMode.DURABLE, b'"a"', 5, "line"),
            NewFrame(1, "blob", StreamMode.BEST_EFFORT, b'"AA=="', 6),
            NewFrame(0, "event", StreamMode.SUMMARY, b'{"a":null}', 7, nulls=b'[["a"]]', version=1),
        ]
        parts = [
            StreamPart("talk", 1, 1, summary=b'{"a":null}', version=1),
            StreamPart("think", 2, 1),
        ]

        answer = self.do(store, AppendFrames("r1", run.generation, Output(parts, frames)))

        assert answer == Appended(3, 2, 1)
        assert store.streams.frames("r1") == [
            StoredFrame(1, 1, "stdout", "durable", "line", b'"a"', None, None, 5),
            StoredFrame(2, 2, "blob", "best_effort", None, b'"AA=="', None, None, 6),
            StoredFrame(3, 1, "event", "summary", None, b'{"a":null}', b'[["a"]]', 1, 7),
        ]
        talk, think = store.streams.of_run("r1")
        assert (talk.step, talk.attempt, talk.generation, talk.frames, talk.version) == (
            "talk",
            1,
            1,
            2,
            1,
        )
        assert (talk.summary, talk.opened_at, talk.closed_at) == (b'{"a":null}', clock.now(), None)
        assert (think.step, think.attempt, think.frames, think.kept["best_effort"]) == (
            "think",
            2,
            1,
            1,
        )

    def test_numbers_grow_within_a_run(self, store: Store) -> None:
        run = self.hold(store)

        assert [
            self.append(store, run, b"1", b"2").last_seq,
            self.append(store, run, b"3", step="other").last_seq,
        ] == [2, 3]
        assert [frame.seq for frame in store.streams.frames("r1")] == [1, 2, 3]

    def test_frames_are_read_by_range_by_step_and_without_best_effort(self, store: Store) -> None:
        run = self.hold(store)
        self.append(store, run, b"1", b"2")
        self.append(store, run, b"3", step="other", mode=StreamMode.BEST_EFFORT)
        self.append(store, run, b"4")

        assert self.frame_data(store, after=1, until=3) == [b"2", b"3"]
        assert self.frame_data(store, limit=2) == [b"1", b"2"]
        assert self.frame_data(store, step="talk") == [b"1", b"2", b"4"]
        assert self.frame_data(store, best_effort=False) == [b"1", b"2", b"4"]
        assert self.frame_data(store, after=4) == []

    def test_a_stale_holder_appends_nothing(self, store: Store) -> None:
        run = self.hold(store)
        self.do(store, EndSession("s1", crashed=True))

        with pytest.raises(LeaseLost):
            self.append(store, run, b"1")

        assert store.streams.frames("r1") == []
        assert store.streams.of_run("r1") == []

    def test_a_worker_that_never_held_the_run_appends_nothing(self, store: Store) -> None:
        self.start(store)

        with pytest.raises(LeaseLost):
            self.do(store, AppendFrames("r1", 0, self.output(b"1")))
        with pytest.raises(LeaseLost):
            self.do(store, AppendFrames("none", 1, self.output(b"1")))

    def test_nothing_is_appended_to_a_closed_stream(self, store: Store) -> None:
        run = self.hold(store)
        self.append(store, run, b"1", close="completed")

        with pytest.raises(StreamClosed):
            self.append(store, run, b"2")

        assert self.frame_data(store) == [b"1"]
        assert (self.stream(store).reason, self.stream(store).frames) == ("completed", 1)

    def test_refused_output_harms_none_of_its_neighbours(self, store: Store) -> None:
        first, second, third = (self.hold(store, name) for name in ("r1", "r2", "r3"))
        self.append(store, second, b"0", close="completed")

        answers = store.apply(
            [
                AppendFrames("r1", first.generation, self.output(b"1")),
                AppendFrames("r2", second.generation, self.output(b"2")),
                AppendFrames("r3", third.generation + 1, self.output(b"3")),
                AppendFrames("r1", first.generation, self.output(b"4", close="completed")),
            ]
        )

        assert answers[0] == Appended(1, 1)
        assert isinstance(answers[1], StreamClosed)
        assert isinstance(answers[2], LeaseLost)
        assert answers[3] == Appended(2, 2)
        assert [self.frame_data(store, name) for name in ("r1", "r2", "r3")] == [
            [b"1", b"4"],
            [b"0"],
            [],
        ]

    def test_many_runs_append_in_one_batch(self, store: Store) -> None:
        runs = [self.hold(store, f"r{number}") for number in range(30)]

        store.apply(
            [
                AppendFrames(run.id, run.generation, self.output(b"1", run.id.encode()))
                for run in runs
            ]
        )

        assert [self.frame_data(store, run.id) for run in runs] == [
            [b"1", run.id.encode()] for run in runs
        ]

    @pytest.mark.parametrize("mode", StreamMode)
    def test_only_the_newest_frames_of_each_mode_are_kept(
        self, store: Store, mode: StreamMode
    ) -> None:
        run = self.hold(store)
        others = [other for other in StreamMode if other is not mode]
        for other in others:
            self.append(store, run, b"0", mode=other)

        self.append(store, run, b"1", b"2", b"3", mode=mode, keep={mode.value: 2})
        self.append(store, run, b"4", mode=mode, keep={mode.value: 2})
        self.append(store, run, b"5", b"6", b"7", mode=mode, keep={mode.value: 2})

        assert self.frame_data(store) == [b"0", b"0", b"6", b"7"]
        assert self.stream(store).kept == {mode.value: 2, **{other.value: 1 for other in others}}
        assert self.stream(store).frames == 9
        assert self.append(store, run, b"8").last_seq == 10

    def test_trimming_one_stream_leaves_the_others_alone(self, store: Store) -> None:
        run = self.hold(store)
        for step in ("a", "b", "a", "b", "a"):
            self.append(
                store, run, step.encode(), step=step, keep={"durable": 2} if step == "a" else {}
            )

        assert self.frame_data(store) == [b"b", b"a", b"b", b"a"]

    def test_progress_keeps_the_last_value_of_each_field(self, store: Store) -> None:
        run = self.hold(store)
        assert store.streams.progress("r1") is None
        self.append(store, run, progress=Progress(10.0, "begins", 1))
        self.append(store, run, progress=Progress(50.0, None, 2))
        self.append(store, run, b"1")

        assert store.streams.progress("r1") == Progress(50.0, "begins", 2)

    def test_output_is_written_with_the_advance_that_carries_it_or_not_at_all(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        self.advance(store, run, effects=[AppendOutput(self.output(b"1", close="completed"))])
        stale = self.output(b"2", attempt=2)

        with pytest.raises(LeaseLost):
            self.do(
                store,
                Advance(
                    run_id="r1",
                    generation=9,
                    events=[self.event(store)],
                    effects=[AppendOutput(stale)],
                ),
            )

        assert self.frame_data(store) == [b"1"]
        assert self.stream(store).reason == "completed"

    def test_the_end_of_a_run_closes_its_streams(self, store: Store) -> None:
        run = self.hold(store)
        self.append(store, run, b"1")
        self.append(store, run, b"2", step="", generation=0)

        self.finish(store, run, effects=[AppendOutput(Output(close_others="completed"))])

        assert [stream.reason for stream in store.streams.of_run("r1")] == [
            "completed",
            "completed",
        ]

    def test_a_takeover_closes_the_streams_of_steps_and_their_next_attempt_supersedes_them(
        self, store: Store
    ) -> None:
        run = self.hold(store)
        self.append(store, run, b"1")
        self.append(store, run, b"2", step="", generation=0)

        self.do(store, EndSession("s1", crashed=True))
        (again,) = self.claim(store, "s2")
        self.append(store, again, b"3")
        self.append(store, again, b"4", step="", generation=0)

        old, code, new = store.streams.of_run("r1")
        assert (old.reason, old.superseded_by, code.reason, code.frames) == (
            "taken over",
            3,
            None,
            2,
        )
        assert (new.supersedes, new.generation, new.closed_at) == (1, again.generation, None)

    def test_a_session_that_ends_without_a_crash_releases_its_streams(self, store: Store) -> None:
        run = self.hold(store)
        other = self.hold(store, "r2", "s2")
        self.append(store, run, b"1")
        self.append(store, other, b"1")

        self.do(store, EndSession("s1", crashed=False))

        assert (self.stream(store).reason, self.stream(store, "r2").reason) == ("released", None)

    def test_ending_a_run_by_force_closes_its_streams(self, store: Store, clock: HandClock) -> None:
        run = self.hold(store)
        self.append(store, run, b"1")
        clock.move(SECOND)

        self.do(store, RequestCancel("r1", "enough", force=True))

        assert (self.stream(store).reason, self.stream(store).closed_at) == (
            "cancelled",
            clock.now(),
        )
        with pytest.raises(LeaseLost):
            self.append(store, run, b"2")

    def test_a_stuck_run_closes_the_streams_of_its_steps(self, store: Store) -> None:
        run = self.hold(store)
        self.append(store, run, b"1")
        self.append(store, run, b"2", step="", generation=0)

        closing = Output(close_others="stuck", only_steps=True)
        self.advance(
            store,
            run,
            status=Status.STUCK,
            error=b"{}",
            release=True,
            effects=[AppendOutput(closing)],
        )

        assert [stream.reason for stream in store.streams.of_run("r1")] == ["stuck", None]

    def test_output_is_pruned_with_its_run(self, store: Store, clock: HandClock) -> None:
        run = self.hold(store)
        self.append(store, run, b"1", close="completed")
        self.finish(store, run)
        clock.move(MINUTE)

        self.do(store, Prune(clock.now(), ["completed"]))

        assert store.streams.of_run("r1") == []
        assert store.streams.frames("r1") == []
        assert store.run_snapshots.belongings("r1") == {}
        assert store.streams.progress("r1") is None

    def test_output_is_imported_with_its_run(self, store: Store) -> None:
        run = self.hold(store)
        self.append(store, run, b"1", b"2", progress=Progress(5.0, "x", 3), close="completed")
        self.finish(store, run)
        (snapshot,) = store.run_snapshots.page("", 10, 10**6)
        frames = store.streams.frames("r1")
        streams = store.streams.of_run("r1")

        self.do(
            store,
            ImportRun(
                RunRecord(**{**_fields(snapshot.run), "id": "r2"}),
                {},
                snapshot.events,
                (),
                snapshot.below,
            ),
        )

        assert store.streams.frames("r2") == frames
        assert [stream.frames for stream in store.streams.of_run("r2")] == [
            stream.frames for stream in streams
        ]
        assert store.streams.progress("r2") == Progress(5.0, "x", 3)


def _fields(run: RunRecord) -> dict[str, Any]:
    return {name: getattr(run, name) for name in run.__struct_fields__}
