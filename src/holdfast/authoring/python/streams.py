"""What a step or a workflow shows while it works: ``emit``, ``progress``, ``stream``. Outside a run
they do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.authoring.python.step import current_step
from holdfast.authoring.replay.identity import current_branch
from holdfast.authoring.replay.replay import current_program
from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.core.streams.model import FrameKind, StreamMode
from holdfast.core.streams.rules import LARGEST, TTL, null
from holdfast.core.text import is_storable
from holdfast.core.validation import checked_count
from holdfast.errors import BadOption

PIECE = LARGEST // 8
"""Characters of a text that surely fit into one frame, however they are written in JSON."""


class Stream:
    """The output of whatever runs: write to it as to a file, or emit values.

    ``durable`` keeps the last 10,000 frames, or *keep* of them; ``summary`` takes patches of a
    document and keeps that; ``best_effort`` keeps about what came within *ttl*, and never makes
    anybody wait.
    """

    __slots__ = ("_keep", "_mode", "_ttl")

    def __init__(
        self, mode: str = StreamMode.DURABLE, keep: int | None = None, ttl: Duration | None = None
    ) -> None:
        if not isinstance(mode, str) or mode not in set(StreamMode):
            raise BadOption(option="mode", value=mode, known=", ".join(StreamMode))
        if keep is not None:
            keep = checked_count("keep", keep, least=1)
        if keep is not None and mode == StreamMode.BEST_EFFORT:
            raise BadOption(
                option="keep", value=keep, why="best effort keeps what came within ttl="
            )
        self._mode, self._keep = StreamMode(mode), keep
        self._ttl = TTL if ttl is None else duration.parse(ttl)
        if self._ttl <= 0:
            raise BadOption(option="ttl", value=ttl, why="it must be longer than nothing")

    def write(self, data: str | bytes) -> int:
        """Append text, as a step prints it, or bytes; return how long it was, as files do."""
        if isinstance(data, str):
            for start in range(0, len(data), PIECE):
                self._put(FrameKind.STDOUT, data[start : start + PIECE])
        elif isinstance(data, bytes | bytearray | memoryview):
            self._put(FrameKind.BLOB, bytes(data))
        else:
            raise BadOption(
                option="data", value=type(data).__name__, why="write text or bytes, or emit a value"
            )
        return len(data)

    def error(self, text: str) -> None:
        """Append text, as a step prints it to stderr."""
        if not isinstance(text, str):
            raise BadOption(
                option="text",
                value=type(text).__name__,
                why="write bytes with write(), or emit a value",
            )
        for start in range(0, len(text), PIECE):
            self._put(FrameKind.STDERR, text[start : start + PIECE])

    def emit(self, value: Any, *, name: str | None = None) -> None:
        """Append a value; *name* says what kind of thing it is."""
        if name is not None and (
            not isinstance(name, str) or not name or len(name) > 200 or not is_storable(name)
        ):
            raise BadOption(
                option="name", value=name, why="it must be a text of 1 to 200 characters"
            )
        if self._mode == StreamMode.SUMMARY:
            self.patch(value)
        else:
            self._put(FrameKind.EVENT, value, name)

    def patch(self, changes: Mapping[str, Any]) -> None:
        """Change the summary by JSON Merge Patch: ``None`` deletes, ``holdfast.null`` is a null.
        Raises BadPatch."""
        if self._mode != StreamMode.SUMMARY:
            raise BadOption(
                option="mode", value=self._mode.value, why='patches are for stream("summary")'
            )
        self._put(FrameKind.EVENT, changes)

    def flush(self) -> None:
        """Nothing: what was written is on its way."""

    def _put(self, kind: str, value: Any, name: str | None = None) -> None:
        sink, step, attempt, code = _here()
        if sink is not None:
            mode = (
                StreamMode.DURABLE
                if self._mode == StreamMode.SUMMARY and kind != FrameKind.EVENT
                else self._mode
            )
            sink.put(
                step,
                attempt,
                kind,
                value,
                code=code,
                mode=mode.value,
                name=name,
                keep=self._keep,
                ttl=self._ttl,
            )


def _here() -> tuple[Any, str, int, bool]:
    """Return where output goes from here, and who puts it out: a step, or the code of the workflow
    in some branch."""
    info = current_step.get()
    if info is not None:
        return info.sink, info.step, info.attempt, False
    program = current_program.get()
    if program is None:
        return None, "", 0, False
    return program.sink, current_branch.get(program.root).path, 0, True


_durable = Stream()


def stream(
    mode: str = StreamMode.DURABLE, *, keep: int | None = None, ttl: Duration | None = None
) -> Stream:
    """Return the output of the running step, or of the workflow's own code, to write to."""
    return Stream(mode, keep, ttl)


def emit(value: Any, *, name: str | None = None) -> None:
    """Append a value to the output of the running step or workflow."""
    _durable.emit(value, name=name)


def progress(percent: float | None = None, message: str | None = None) -> None:
    """Say how far the run is. What is not said stays as it was."""
    if percent is not None and (
        isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100
    ):
        raise BadOption(option="percent", value=percent, why="it is a number from 0 to 100")
    if message is not None and (
        not isinstance(message, str) or len(message) > 1000 or not is_storable(message)
    ):
        raise BadOption(
            option="message", value=message, why="it must be a text of at most 1000 characters"
        )
    sink, step, attempt, code = _here()
    if sink is not None and (percent is not None or message is not None):
        sink.advanced(
            step, attempt, None if percent is None else float(percent), message, code=code
        )


__all__ = ["Stream", "emit", "null", "progress", "stream"]
