"""Operations on lanes."""

from __future__ import annotations

from holdfast.core.sessions import Lane
from holdfast.store.database import Operation


class SetLane(Operation):
    """Create a lane or change its limits.

    Answers:
        None
    """

    lane: Lane
