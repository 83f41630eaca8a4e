"""The queries of a store, written once for both databases: named SQL in, records out."""

from __future__ import annotations

from holdfast.store.budgets.queries import BudgetQueries
from holdfast.store.flows.queries import FlowQueries
from holdfast.store.gates.queries import GateQueries
from holdfast.store.graphs.queries import GraphQueries
from holdfast.store.keys.queries import KeyQueries
from holdfast.store.payloads.queries import PayloadQueries
from holdfast.store.runs.queries import RunQueries
from holdfast.store.schedules.queries import ScheduleQueries
from holdfast.store.streams.queries import StreamQueries
from holdfast.store.subscriptions.queries import EventQueries
from holdfast.store.tasks.queries import LeaseQueries
from holdfast.store.waits.queries import WaitQueries


class StoreQueries(
    PayloadQueries,
    RunQueries,
    FlowQueries,
    LeaseQueries,
    GateQueries,
    KeyQueries,
    ScheduleQueries,
    WaitQueries,
    StreamQueries,
    EventQueries,
    BudgetQueries,
    GraphQueries,
):
    """All queries of a store; one base class per feature."""
