"""Append the output of runs, as their holders, for many runs with the same statements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.streams.model import Output, StreamMode, StreamPart
from holdfast.errors import BadOption, HoldfastError, LeaseLost, StreamClosed
from holdfast.store.database import Row, Transaction
from holdfast.store.effects import Commit, applies
from holdfast.store.streams.operations import Appended, AppendFrames, AppendOutput, CloseStreams

RunOutput = tuple[str, Output]
"""The id of a run, and the output to append."""

_KEPT = {
    StreamMode.DURABLE.value: "durable",
    StreamMode.SUMMARY.value: "patches",
    StreamMode.BEST_EFFORT.value: "best_effort",
}
"""The parameter that counts the kept frames of each mode."""


def append_frames(tx: Transaction, op: AppendFrames) -> Appended:
    """Append output of a run as its holder. Raises LeaseLost, StreamClosed."""
    (answer,) = append_all(tx, [op])
    if isinstance(answer, HoldfastError):
        raise answer
    return answer


def append_all(tx: Transaction, ops: Sequence[AppendFrames]) -> list[Appended | HoldfastError]:
    """Append output for several runs, each given once. A refused run changes nothing."""
    # Locks the runs, in the order of their ids like every writer of several runs.
    leases = {
        row["id"]: row
        for row in tx.rows("leases_of", ids=tx.as_list(sorted({op.run_id for op in ops})))
    }
    answers: list[Any] = [_refusal(op, leases.get(op.run_id)) for op in ops]
    accepted = [
        (op.run_id, op.output) for op, refused in zip(ops, answers, strict=True) if refused is None
    ]
    written = iter(write(tx, accepted))
    return [next(written) if refused is None else refused for refused in answers]


def _refusal(op: AppendFrames, lease: Row | None) -> HoldfastError | None:
    if lease is None or lease["generation"] != op.generation or lease["session_id"] is None:
        return LeaseLost(run=op.run_id, generation=op.generation)
    return None


@applies(AppendOutput)
def append_output(tx: Transaction, commit: Commit, effects: Sequence[AppendOutput]) -> None:
    """Append output of the run. Refusals are ignored: output that is too late for its stream must
    not stop the run."""
    write(tx, [(commit.run_id, effect.output) for effect in effects])


@applies(CloseStreams)
def close_streams(tx: Transaction, commit: Commit, effects: Sequence[CloseStreams]) -> None:
    """Close the streams of the attempt."""
    for effect in effects:
        tx.change("close_streams", run_id=commit.run_id, now=tx.now, reason=effect.reason, least=1)


def write(tx: Transaction, outputs: Sequence[RunOutput]) -> list[Appended | HoldfastError]:
    """Append output of runs whose lease was checked. Return for each how far it got, or the
    refusal."""
    if not outputs:
        return []
    ids = tx.as_list(sorted({run_id for run_id, _ in outputs}))
    heads = {row["run_id"]: row for row in tx.rows("outputs_of", ids=ids)}
    known = {_key(row["run_id"], row): _counts(row) for row in tx.rows("open_streams_of", ids=ids)}
    plans = [
        _PlannedOutput(tx, run_id, output, heads.get(run_id), known) for run_id, output in outputs
    ]
    accepted = [plan for plan in plans if plan.refused is None and plan.repeated is None]
    # Streams before their frames, which refer to them.
    for query in ("insert_stream", "save_stream", "save_output", "insert_frame"):
        tx.many(query, [row for plan in accepted for row in plan.rows[query]])
    # After the new frames, which count towards the limits.
    for plan in accepted:
        plan.trim(tx)
        if plan.output.close_others is not None:
            least = 1 if plan.output.only_steps else 0
            tx.change(
                "close_streams",
                run_id=plan.run_id,
                now=tx.now,
                reason=plan.output.close_others,
                least=least,
            )
        tx.hints.frames.add(plan.run_id)
    return [plan.refused or plan.answer for plan in plans]


def _key(run_id: str, part: Any) -> tuple[str, str, int, int]:
    if isinstance(part, StreamPart):
        return run_id, part.step, part.attempt, part.generation
    return run_id, part["step"], part["attempt"], part["generation"]


def _counts(row: Row) -> dict[str, Any]:
    """Return a stored stream as parameters of the query that saves it."""
    return {
        "number": row["number"],
        "frames": row["frames"],
        "said": row["said"],
        "durable": row["kept_durable"],
        "patches": row["kept_summary"],
        "best_effort": row["kept_best_effort"],
        "first_seq": row["first_seq"],
        "version": row["version"],
    }


class _PlannedOutput:
    """The rows to be written for the output of one run."""

    def __init__(
        self, tx: Transaction, run_id: str, output: Output, head: Row | None, known: dict[Any, Any]
    ) -> None:
        self.run_id: str = run_id
        self.output: Output = output
        self.refused: HoldfastError | None = None
        self.last_seq: int = head["last_seq"] if head else 0
        self._streams: int = head["streams"] if head else 0
        self.rows: dict[str, list[dict[str, object]]] = {
            "insert_stream": [],
            "save_stream": [],
            "save_output": [],
            "insert_frame": [],
        }
        self._trims: list[tuple[str, dict[str, object]]] = []
        self.repeated: Appended | None = None
        self.answer: Appended = Appended(self.last_seq)
        states = [self._open(tx, part, known) for part in output.streams]
        for place, (part, state) in enumerate(zip(output.streams, states, strict=True)):
            self._compare(tx, part, state, sum(frame.stream == place for frame in output.frames))
            self._patch(tx, part, state)
        if self.repeated is not None:
            self.answer = self.repeated
        elif self.refused is None:
            self._enter(tx, states)

    def _open(self, tx: Transaction, part: StreamPart, known: dict[Any, Any]) -> dict[str, Any]:
        state = known.get(_key(self.run_id, part))
        if state is not None:
            return dict(state, new=False)
        attempt = {"step": part.step, "attempt": part.attempt, "generation": part.generation}
        # Only open streams were read before; this one may exist and be closed.
        if tx.rows("stream_by_attempt", run_id=self.run_id, **attempt):
            self.refused = StreamClosed(run=self.run_id, step=part.step, attempt=part.attempt)
        self._streams += 1
        counts = {
            "frames": 0,
            "said": 0,
            "durable": 0,
            "patches": 0,
            "best_effort": 0,
            "version": 0,
        }
        return {
            "number": self._streams,
            "first_seq": self.last_seq + 1,
            **counts,
            **attempt,
            "new": True,
        }

    def _compare(
        self, tx: Transaction, part: StreamPart, state: dict[str, Any], count: int
    ) -> None:
        """Compare the position of a stream with the position that its writer expects.

        A part that was written before is answered again (`repeated`), a gap is refused.
        """
        if part.place is None or state["frames"] == part.place:
            return
        if state["frames"] < part.place + count:
            why = f"the stream has {state['frames']} frames so far"
            self.refused = BadOption(option="place", value=part.place, why=why)
            return
        seq = self.last_seq - (state["frames"] - part.place - count)
        rows = tx.rows("frame_version", run_id=self.run_id, seq=seq)
        version = rows[0]["version"] if rows else None
        self.repeated = Appended(seq, part.place + count, version)

    def _patch(self, tx: Transaction, part: StreamPart, state: dict[str, Any]) -> None:
        """Compute the summary of a stream from the stored one. The lock on the run keeps other
        writers away until this transaction ends."""
        state["summary"] = part.summary
        if part.patches is None or self.refused is not None or self.repeated is not None:
            return
        stored = None
        if not state["new"]:
            rows = tx.rows("summary_of_stream", run_id=self.run_id, number=state["number"])
            if rows and rows[0]["summary"] is not None:
                stored = bytes(rows[0]["summary"])
        try:
            state["summary"] = part.patches(stored)
        except HoldfastError as error:
            self.refused = error

    def _enter(self, tx: Transaction, states: list[dict[str, Any]]) -> None:
        for frame in self.output.frames:
            self.last_seq += 1
            state = states[frame.stream]
            state["frames"] += 1
            state[_KEPT[frame.mode]] += 1
            version = frame.version
            if self.output.streams[frame.stream].patches is not None:
                state["version"] += 1
                version = state["version"]
            self.answer = Appended(self.last_seq, state["frames"], version)
            self.rows["insert_frame"].append(
                {
                    "run_id": self.run_id,
                    "seq": self.last_seq,
                    "stream": state["number"],
                    "kind": frame.kind,
                    "mode": frame.mode,
                    "name": frame.name,
                    "data": frame.data,
                    "nulls": frame.nulls,
                    "version": version,
                    "at": frame.at,
                }
            )
        for part, state in zip(self.output.streams, states, strict=True):
            self._save(tx, part, state)
        progress = self.output.progress
        self.rows["save_output"].append(
            {
                "run_id": self.run_id,
                "last_seq": self.last_seq,
                "streams": self._streams,
                "percent": progress.percent if progress else None,
                "message": progress.message if progress else None,
                "progress_at": progress.at if progress else None,
            }
        )

    def _save(self, tx: Transaction, part: StreamPart, state: dict[str, Any]) -> None:
        for mode, keep in part.keep.items():
            self._trim(state, mode, state[_KEPT[mode]] - keep)
        is_new = state.pop("new")
        first_seq = state["first_seq"]
        row = {
            **state,
            "run_id": self.run_id,
            "said": state["said"] + part.said,
            "version": max(state["version"], part.version),
            "now": tx.now,
            "reason": part.close,
            "closed_at": None if part.close is None else tx.now,
        }
        if is_new:
            self.rows["insert_stream"].append({**row, "first_seq": first_seq})
        else:
            del row["first_seq"]
            self.rows["save_stream"].append(row)

    def _trim(self, state: dict[str, Any], mode: str, excess: int) -> None:
        if excess <= 0:
            return
        state[_KEPT[mode]] -= excess
        trim: dict[str, object] = {
            "run_id": self.run_id,
            "stream": state["number"],
            "excess": excess,
        }
        if mode == StreamMode.DURABLE:
            self._trims.append(("trim_durable", {**trim, "first_seq": state["first_seq"]}))
            first = {
                "run_id": self.run_id,
                "number": state["number"],
                "first_seq": state["first_seq"],
            }
            self._trims.append(("move_first_frame", first))
        else:
            self._trims.append(("trim_passing", {**trim, "mode": mode}))

    def trim(self, tx: Transaction) -> None:
        """Delete the frames beyond the limits of their modes."""
        for query, values in self._trims:
            tx.change(query, **values)


__all__ = ["append_all", "append_frames", "write"]
