"""Deploy definitions, and choose the version that new runs use: its schedules replace the schedules
of the other versions in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core.definitions import DefinitionState
from holdfast.core.schedules.model import MODEL, Schedule
from holdfast.errors import ModelNotFound
from holdfast.store.database import Row, Transaction
from holdfast.store.definitions.operations import (
    DeployDefinitions,
    Deployed,
    NewDeployment,
    SetDefinitionState,
)
from holdfast.store.schedules.apply import set_schedule
from holdfast.store.schedules.operations import SetSchedule


def deploy_definitions(tx: Transaction, op: DeployDefinitions) -> list[Deployed]:
    """Deploy definitions. The names are locked in order, so that two deployments of one name give
    it two numbers."""
    for kind, name in sorted({(new.kind, new.name) for new in op.definitions}):
        tx.rows("lock_definitions", namespace=op.namespace, kind=kind, name=name)
    tx.rows("share_definition_contents")
    return [_deploy(tx, op, new) for new in op.definitions]


def _deploy(tx: Transaction, op: DeployDefinitions, new: NewDeployment) -> Deployed:
    place = {"namespace": op.namespace, "kind": new.kind, "name": new.name}
    versions = tx.rows("deployed_versions", **place)
    known = next((row for row in versions if row["digest"] == new.digest), None)
    # Deployed before: the content keeps its version, and new runs use that version again.
    if known is not None:
        version = str(known["version"])
        if not _is_current(known, versions):
            _move(tx, {**place, "version": version}, DefinitionState.ACTIVE, versions)
            if new.has_runs:
                _schedule(tx, place, version, new.schedules)
        return Deployed(new.kind, new.name, version, created=False)
    # A damaged version is no number.
    numbers = [int(row["version"]) for row in versions if row["version"].isdecimal()]
    version = str(max(numbers, default=0) + 1)
    row = {
        **place,
        "version": version,
        "digest": new.digest,
        "state": DefinitionState.ACTIVE,
        "deployed_at": tx.now,
        "deployed_by": op.by,
        "used_at": _after_all(tx, versions),
    }
    tx.change("insert_definition", **row)
    tx.change("insert_definition_content", digest=new.digest, content=new.content)
    start = {"namespace": op.namespace, "process": new.name, "version": version}
    tx.many(
        "insert_start",
        [
            {**start, "kind": kind, "name": name, "element": element}
            for kind, name, element in new.starts
        ],
    )
    if new.has_runs:
        _schedule(tx, place, version, new.schedules)
    return Deployed(new.kind, new.name, version, created=True)


def set_definition_state(tx: Transaction, op: SetDefinitionState) -> bool:
    """Activate or deprecate a version. Raises ModelNotFound."""
    place = {"namespace": op.namespace, "kind": op.kind, "name": op.name}
    tx.rows("lock_definitions", **place)
    versions = tx.rows("deployed_versions", **place)
    known = next((row for row in versions if row["version"] == op.version), None)
    if known is None:
        raise ModelNotFound(model=op.name, version=op.version)
    if op.state is DefinitionState.ACTIVE and _is_current(known, versions):
        return False
    if op.state is DefinitionState.DEPRECATED and known["state"] == op.state:
        return False
    _move(tx, {**place, "version": op.version}, op.state, versions)
    if not op.has_runs:
        return True
    # Read again: the change above decides which version is the current one.
    active = [
        str(row["version"])
        for row in tx.rows("deployed_versions", **place)
        if row["state"] == DefinitionState.ACTIVE
    ]
    current = active[0] if active else ""
    _schedule(tx, place, current, op.schedules.get(current, ()))
    return True


def _is_current(known: Row, versions: list[Row]) -> bool:
    """Return whether new runs use this version."""
    active = [row for row in versions if row["state"] == DefinitionState.ACTIVE]
    return bool(active) and active[0]["version"] == known["version"]


def _move(
    tx: Transaction, place: dict[str, object], state: DefinitionState, versions: list[Row]
) -> None:
    tx.change("set_definition_state", **place, state=state, now=_after_all(tx, versions))


def _after_all(tx: Transaction, versions: list[Row]) -> int:
    """Return the instant of a change that comes after all earlier ones of this name: a clock may
    stand still or go back, and new runs use the version that was changed last."""
    return max(tx.now, *(int(row["used_at"]) + 1 for row in versions)) if versions else tx.now


def _schedule(
    tx: Transaction, place: Mapping[str, object], version: str, schedules: Sequence[Schedule]
) -> None:
    """Let the schedules of one version replace the schedules of the others. Raises BadSchedule."""
    names = {schedule.name for schedule in schedules}
    process = {"namespace": place["namespace"], "workflow": place["name"]}
    for row in tx.rows("schedules_of_model", **process, origin=MODEL):
        if row["name"] not in names:
            tx.change("delete_schedule", namespace=place["namespace"], name=row["name"])
    for schedule in schedules:
        set_schedule(tx, SetSchedule(msgspec.structs.replace(schedule, version=version)))
