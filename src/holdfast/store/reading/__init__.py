"""The queries of a store, written once for both databases: named SQL in, records out."""

from __future__ import annotations

from holdfast.store.reading.budgets import BudgetQueries
from holdfast.store.reading.flows import FlowQueries
from holdfast.store.reading.gates import GateQueries
from holdfast.store.reading.graphs import GraphQueries
from holdfast.store.reading.keys import KeyQueries
from holdfast.store.reading.leases import LeaseQueries
from holdfast.store.reading.payloads import PayloadQueries
from holdfast.store.reading.runs import RunQueries, route_values, values_of
from holdfast.store.reading.schedules import ScheduleQueries
from holdfast.store.reading.streams import StreamQueries
from holdfast.store.reading.subscriptions import EventQueries
from holdfast.store.reading.waits import WaitQueries
from holdfast.store.transitions.transaction import lane_from


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


__all__ = ["StoreQueries", "lane_from", "route_values", "values_of"]
