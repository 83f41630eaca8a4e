"""Judge runs in a thread that is abandoned when the code of a run gives no answer.

User code may loop or block. A thread cannot be ended from outside, so the thread that judges is
asked to stop, abandoned, and replaced. It is a daemon: it does not keep the process alive.
"""

from __future__ import annotations

import asyncio
import ctypes
import queue
import threading
from collections import Counter
from collections.abc import Mapping

from holdfast.core.codec import Codec
from holdfast.core.dry_replay import Judgement, Verdict
from holdfast.core.events import Event
from holdfast.core.program import Definition
from holdfast.core.runs import RunRecord
from holdfast.engine.dry_replay.judge import RecordedRun, judge, judge_unopened, unjudged
from holdfast.payloads.sealer import PayloadSealer

STALLED_RUNS = 3
"""The number of runs of one version of a workflow that may give no answer before the others are no
longer tried: each of them costs the whole limit."""


class JudgementStopped(BaseException):
    """Raised inside user code that has given no answer within the limit."""


class Judges:
    """Judges runs, one after another."""

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        codec: Codec,
        sealer: PayloadSealer,
        limit: float,
    ) -> None:
        self._definitions: Mapping[str, Definition] = definitions
        self._codec: Codec = codec
        self._sealer: PayloadSealer = sealer
        self._limit: float = limit
        """The number of seconds that the code of one run may take."""
        self._thread: _JudgeThread | None = None
        self._stalled: Counter[tuple[str, str]] = Counter()

    def judge(self, recorded: RecordedRun) -> Judgement:
        """Return the judgement of a run; it takes the limit at most. Never raises for a run that
        is damaged or whose code fails."""
        run = recorded.run
        definition = self._definitions.get(run.workflow)
        known = judge_unopened(recorded, definition)
        if known is not None:
            return known
        assert definition is not None
        try:
            run = self._sealer.opener.run(run)
            history = self._sealer.opener.events(run.id, recorded.history)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            return unjudged(recorded.run, Verdict.UNREADABLE, why)
        kind = (run.workflow, run.version)
        if self._stalled[kind] >= STALLED_RUNS:
            why = f"not tried, because {STALLED_RUNS} runs of this workflow gave no answer"
            return unjudged(run, Verdict.STALLS, why)
        return self._judge_in_thread(run, history, definition)

    def _judge_in_thread(
        self, run: RunRecord, history: list[Event], definition: Definition
    ) -> Judgement:
        if self._thread is None:
            self._thread = _JudgeThread(self._codec)
        thread = self._thread
        judgement = thread.judge(run, history, definition, self._limit)
        if judgement is None:
            thread.abandon(run.id)
            self._thread = None
            self._stalled[run.workflow, run.version] += 1
            why = f"the code gave no answer within {self._limit:g}s: it loops or blocks"
            return unjudged(run, Verdict.STALLS, why)
        return judgement

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.requests.put(None)
            self._thread = None


_Request = tuple[RunRecord, list[Event], Definition]


class _JudgeThread:
    """A thread with an event loop that judges the runs that it is given."""

    def __init__(self, codec: Codec) -> None:
        self._codec: Codec = codec
        self.requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Judgement] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="holdfast check", daemon=True)
        self._thread.start()

    def judge(
        self, run: RunRecord, history: list[Event], definition: Definition, limit: float
    ) -> Judgement | None:
        """Return the judgement; None if there is none within *limit* seconds."""
        self.requests.put((run, history, definition))
        try:
            return self._answers.get(timeout=limit)
        except queue.Empty:
            return None

    def abandon(self, run_id: str) -> None:
        """Ask the thread, and the threads of a ``def`` workflow, to stop; do not wait for it."""
        self.requests.put(None)
        names = (self._thread.name, f"holdfast {run_id}")
        for thread in threading.enumerate():
            if thread is self._thread or thread.name == names[1]:
                _raise_in(thread, JudgementStopped)

    def _serve(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            while (request := self.requests.get()) is not None:
                run, history, definition = request
                self._answers.put(
                    loop.run_until_complete(judge(run, history, definition, self._codec))
                )
        except JudgementStopped:
            return
        finally:
            loop.close()


def _raise_in(thread: threading.Thread, error: type[BaseException]) -> None:
    """Raise *error* in another thread as soon as it executes Python code again."""
    if thread.ident is not None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(thread.ident), ctypes.py_object(error)
        )
