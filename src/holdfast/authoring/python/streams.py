"""``emit``, ``progress`` and ``stream``: the output of a step or of workflow code while it runs.

Outside a run they do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.authoring.replay.identity import current_branch
from holdfast.authoring.replay.replay import current_program
from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.core.step_info import current_step
from holdfast.core.streams.model import FrameKind, StreamMode
from holdfast.core.streams.rules import LARGEST, TTL, null
from holdfast.core.text import is_storable
from holdfast.core.validation import checked_count
from holdfast.errors import BadOption

PIECE = LARGEST // 8
"""The number of characters that fit into one frame even if JSON has to escape all of them."""


class Stream:
    """The output of the running step or workflow code: write to it as to a file, or emit values.

    ``durable`` keeps the last 10,000 frames, or *keep* of them. ``summary`` takes patches of a
    document and keeps the document. ``best_effort`` keeps approximately the frames of the last
    *ttl*, and never makes the writer wait.
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
                option="keep", value=keep, why="a best_effort stream is limited by ttl= instead"
            )
        self._mode: StreamMode = StreamMode(mode)
        self._keep: int | None = keep
        self._ttl: int = TTL if ttl is None else duration.parse(ttl)
        if self._ttl <= 0:
            raise BadOption(option="ttl", value=ttl, why="the duration must be positive")

    def write(self, data: str | bytes) -> int:
        """Append bytes, or text as stdout; return the length of *data*, as files do."""
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
        """Append text as stderr."""
        if not isinstance(text, str):
            raise BadOption(
                option="text",
                value=type(text).__name__,
                why="write bytes with write(), or emit a value",
            )
        for start in range(0, len(text), PIECE):
            self._put(FrameKind.STDERR, text[start : start + PIECE])

    def emit(self, value: Any, *, name: str | None = None) -> None:
        """Append a value; *name* tells readers what kind of value it is. In a summary, apply the
        value as a patch."""
        if name is not None and (
            not isinstance(name, str) or not name or len(name) > 200 or not is_storable(name)
        ):
            raise BadOption(
                option="name", value=name, why="the name must be a text of 1 to 200 characters"
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
        """Do nothing, as every frame is passed on when it is written. Files have this method."""

    def _put(self, kind: str, value: Any, name: str | None = None) -> None:
        sink, step, attempt, code = _origin_here()
        if sink is not None:
            mode = self._mode
            if mode == StreamMode.SUMMARY and kind != FrameKind.EVENT:
                mode = StreamMode.DURABLE
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


def _origin_here() -> tuple[Any, str, int, bool]:
    """Return the sink for output of the calling code, and the origin of that output.

    The origin is a step with its attempt, or a branch of the workflow code with attempt 0; the last
    item says whether it is workflow code. The sink is None outside a run.
    """
    info = current_step.get()
    if info is not None:
        return info.sink, info.step, info.attempt, False
    program = current_program.get()
    if program is None:
        return None, "", 0, False
    return program.context.output, current_branch.get(program.root).path, 0, True


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
    """Report the progress of the run: 0 to 100 percent, and a message. None leaves a value as it
    is."""
    if percent is not None and (
        isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100
    ):
        raise BadOption(
            option="percent", value=percent, why="the value must be a number from 0 to 100"
        )
    if message is not None and (
        not isinstance(message, str) or len(message) > 1000 or not is_storable(message)
    ):
        raise BadOption(
            option="message",
            value=message,
            why="the message must be a text of at most 1000 characters",
        )
    sink, step, attempt, code = _origin_here()
    if sink is not None and (percent is not None or message is not None):
        sink.advanced(
            step, attempt, None if percent is None else float(percent), message, code=code
        )


__all__ = ["Stream", "emit", "null", "progress", "stream"]
