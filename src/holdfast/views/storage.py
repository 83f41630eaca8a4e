"""Views of the space that a database takes."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.store.retention.operations import WorkflowBytes


class TableSizeView(msgspec.Struct, kw_only=True):
    """The bytes that a table takes, with its indexes."""

    name: str
    bytes: int


class WorkflowSizeView(msgspec.Struct, kw_only=True):
    """The approximate bytes of the values and histories of the runs of a workflow, without indexes;
    ``last_day`` is the part of the last 24 hours."""

    namespace: str
    workflow: str
    runs: int
    events: int
    bytes: int
    last_day: int


def workflow_of(size: WorkflowBytes) -> WorkflowSizeView:
    """Return the view of the size of a workflow."""
    return WorkflowSizeView(
        namespace=size.namespace,
        workflow=size.workflow,
        runs=size.runs,
        events=size.events,
        bytes=size.bytes,
        last_day=size.recent,
    )


def tables_of(sizes: Mapping[str, int]) -> list[TableSizeView]:
    """Return the views of the sizes of tables, the largest first."""
    views = [TableSizeView(name=name, bytes=size) for name, size in sizes.items()]
    return sorted(views, key=lambda view: (-view.bytes, view.name))
