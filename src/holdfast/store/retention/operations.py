"""Operations on retention rules, and on the locks of maintenance tasks."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.retention import RetentionRule
from holdfast.store.database import Operation


class Forget(Operation):
    """Delete a part of the history (a key of ``tables.FORGETTABLE``, such as ``events``) of
    finished trees that ended before ``before``. The runs stay, with their inputs and results.

    Answers:
        Pruned
    Raises:
        BadOption  ``target`` is not a part of a history that can be deleted
    """

    target: str
    before: int
    statuses: Sequence[str]
    limit: int = 500
    namespace: str | None = None
    after: str = ""
    workflow: str | None = None


class SaveRetention(Operation):
    """Create a retention rule, or replace the rule of that name.

    Answers:
        None
        SettingsChanged  ``merges`` is set and the rule is no longer as ``expected``
    """

    rule: RetentionRule
    merges: bool = False
    expected: RetentionRule | None = None
    """The rule as the caller has read it; None if there was none."""


class RemoveRetention(Operation):
    """Delete a retention rule.

    Answers:
        None
    Raises:
        RetentionNotFound  there is no such rule
    """

    name: str


class TakeMaintenanceLock(Operation):
    """Take the lock of a maintenance task for ``lease`` microseconds, if the task is due and no
    other session has it.

    Answers:
        bool  whether this session has the lock
    """

    name: str
    session_id: str
    lease: int


class EndMaintenance(Operation):
    """Release the lock of a maintenance task that is done; the task is due again after ``pause``
    microseconds.

    Answers:
        None
    """

    name: str
    session_id: str
    pause: int


class MaintenanceLock(msgspec.Struct):
    """The state of a maintenance task: the session that has the lock and until when, or when the
    task is due (``until`` without a session); and when it was last done."""

    name: str
    session_id: str | None
    until: int
    done_at: int | None


class PruneFilter(msgspec.Struct, kw_only=True):
    """Which finished trees to prune: those whose roots ended before an instant."""

    before: int
    statuses: Sequence[str]
    namespace: str | None = None
    workflow: str | None = None


class PrunableRun(msgspec.Struct):
    """A finished tree that a retention rule selects: the id of its root, when the root ended, and
    the number and bytes of its runs. ``runs`` is 0 if a part of the tree has not ended."""

    id: str
    finished_at: int
    runs: int
    bytes: int


class PrunableCount(msgspec.Struct, frozen=True):
    """How many finished trees pruning would delete, and how many runs they have together."""

    trees: int
    runs: int


class WorkflowBytes(msgspec.Struct, frozen=True):
    """The approximate bytes of the runs of a workflow; ``recent`` is the part that was written
    lately."""

    namespace: str
    workflow: str
    runs: int
    events: int
    bytes: int
    recent: int
