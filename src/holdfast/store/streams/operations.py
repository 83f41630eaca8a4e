"""Operations on the output of runs."""

from __future__ import annotations

import msgspec

from holdfast.core.streams.model import Output
from holdfast.store.database import Operation
from holdfast.store.effects import Effect


class AppendFrames(Operation):
    """Append output, as the holder of the run: frames in order, progress, and the streams that are
    closed.

    Answers:
        Appended
    Raises (nothing is written):
        LeaseLost     *generation* is not the run's current generation, or the run has no holder
        StreamClosed  a stream is closed
        BadOption     the writer expects another number of frames
        KeyMissing    the stored summary cannot be decrypted here
        BadData       the stored summary is damaged
    """

    run_id: str
    generation: int
    output: Output


class AppendOutput(Effect):
    """Append output of the run. Output that its stream refuses is dropped: it must not stop the
    run."""

    output: Output


class CloseStreams(Effect):
    """Close all open streams of the attempt. The holder of a lease may not know all streams that
    its helper processes have opened."""

    reason: str


class Appended(msgspec.Struct):
    """The output was written; ``last_seq`` is the number of its last frame. ``frames`` is how many
    frames its last stream has had, and ``version`` the version of the summary after its patches;
    None if there were none."""

    last_seq: int
    frames: int = 0
    version: int | None = None


class StoredFrame(msgspec.Struct):
    """A frame as it is stored; only the codec can interpret its data."""

    seq: int
    stream: int
    kind: str
    mode: str
    name: str | None
    data: bytes
    nulls: bytes | None
    version: int | None
    at: int
