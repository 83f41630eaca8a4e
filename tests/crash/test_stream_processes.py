"""Output and events across real processes: followed from elsewhere, and the writer killed in the
middle of it."""

from __future__ import annotations

import signal
from contextlib import closing

import pytest

from holdfast import Engine
from tests.crash.test_processes import Workers
from tests.engine.waiting import PATIENCE

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs signals of POSIX")


@pytest.fixture
def workers(tmp_path):
    workers = Workers(tmp_path)
    yield workers
    for worker in list(workers.running):
        workers.kill(worker)


def test_a_tail_in_another_process_sees_a_killed_writer_superseded(workers):
    with closing(Engine(workers.database, workflows=[])) as engine:
        first = workers.start()
        run = engine.start("talking", "done")
        tail = engine.streams.tail(run.id, timeout=PATIENCE)
        assert next(tail).value == "begins"
        seen = [next(tail) for _ in range(5)]
        assert {frame.value["pid"] for frame in seen} == {first.pid}

        second = workers.start()
        workers.kill(first)
        frames = iter(tail)
        after = next(frame for frame in frames if frame.value["pid"] == second.pid)
        old = next(
            stream for stream in engine.streams.list(run.id) if stream.number == seen[0].stream
        )

        assert (after.supersedes, after.value["said"]) == (seen[0].stream, 0)
        assert (old.reason, old.superseded_by) == ("taken over", after.stream)
        workers.tell("done")
        rest = list(frames)
        assert [frame.value["said"] for frame in rest] == list(range(1, len(rest) + 1))
        assert run.result(timeout=PATIENCE) == second.pid
        assert [stream.reason for stream in engine.streams.list(run.id)] == [
            "completed",
            "taken over",
            "completed",
        ]
        assert [event.kind for event in engine.events.read(kind="leases")] == ["lease_lost"]
        assert engine.database.check() == []


def test_events_of_other_processes_are_followed(workers):
    with closing(Engine(workers.database, workflows=[])) as engine:
        workers.start()
        workers.tell("done")
        events = engine.events.follow(after="now", kind="completions", timeout=PATIENCE)
        for _ in range(3):
            run = engine.start("talking", "done")
            assert next(events).run_id == run.id
