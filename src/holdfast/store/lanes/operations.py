"""Operations on lanes."""

from __future__ import annotations

from holdfast.core.sessions import Lane
from holdfast.store.database import Operation


class SetLane(Operation):
    """Create a lane or change its limits.

    Answers:
        None
        SettingsChanged  ``expected`` is given and the lane has other settings
    """

    lane: Lane
    expected: Lane | None = None
    """The lane as the caller has read it; None to overwrite its settings."""
