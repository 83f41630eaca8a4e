"""Operations on stored definitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from holdfast.core.definitions import DefinitionState
from holdfast.core.schedules.model import Schedule
from holdfast.store.database import Operation


class NewDeployment(msgspec.Struct):
    """A definition to be deployed; the versions that exist decide its number."""

    kind: str
    name: str
    digest: str
    content: bytes
    starts: Sequence[tuple[str, str, str]] = ()
    """The kind, the name and the element of each message or signal that starts it."""
    schedules: Sequence[Schedule] = ()
    """The schedules of its timer start events; the deployment sets their version."""
    has_runs: bool = True
    """False for a decision, which may have the name of a process and has no schedules."""


class DeployDefinitions(Operation, kw_only=True):
    """Deploy definitions, all or none. Content that was deployed before keeps its version; new
    content gets the next number. New runs use the version that was deployed last; its schedules
    replace the schedules of the versions before it.

    Answers:
        list[Deployed]  one per definition, in order
    Raises:
        BadSchedule     another schedule has the name of one of the schedules
    """

    may_refuse_late: ClassVar[bool] = True

    namespace: str
    definitions: Sequence[NewDeployment]
    by: str | None = None


class Deployed(msgspec.Struct):
    """The version of a deployed definition; ``created`` is false if its content was deployed
    before."""

    kind: str
    name: str
    version: str
    created: bool


class SetDefinitionState(Operation, kw_only=True):
    """Activate or deprecate one version of a deployed definition. Of the active versions, new runs
    use the one that was activated or deployed last.

    Answers:
        bool  whether anything was changed
    Raises:
        ModelNotFound  there is no such version, or it was never deployed
        BadSchedule    another schedule has the name of one of its schedules
    """

    may_refuse_late: ClassVar[bool] = True

    namespace: str
    kind: str
    name: str
    version: str
    state: DefinitionState
    schedules: Mapping[str, Sequence[Schedule]] = {}
    """The schedules of the timer start events of each version."""
    has_runs: bool = True
