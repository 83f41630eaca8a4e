"""Operations on lanes."""

from __future__ import annotations

from holdfast.core.sessions import Lane
from holdfast.store.database import Operation


class RemoveLane(Operation):
    """Delete the settings of a lane, its recent admissions and the clocks of its shares.

    Answers:
        None
    Raises:
        LaneNotFound  the lane has no settings
        LaneInUse     runs of the lane have not ended, and ``force`` is not set
    """

    name: str
    force: bool = False


class SetLane(Operation):
    """Create a lane or change its limits.

    Answers:
        None
        SettingsChanged  ``expected`` is given and the lane has other settings
    """

    lane: Lane
    expected: Lane | None = None
    """The lane as the caller has read it; None to overwrite its settings."""
