"""From rows to records: every question that both databases are asked in the same words and answer in the same columns."""

from __future__ import annotations

from holdfast.store.reading.budgets import BudgetReader
from holdfast.store.reading.flows import RowFlowReader
from holdfast.store.reading.gates import GateReader
from holdfast.store.reading.graphs import RowGraphReader
from holdfast.store.reading.keys import KeyReader
from holdfast.store.reading.leases import RowLeaseReader
from holdfast.store.reading.payloads import PayloadReader
from holdfast.store.reading.runs import RunReader, route_values, values_of
from holdfast.store.reading.schedules import ScheduleReader
from holdfast.store.reading.streams import StreamReader
from holdfast.store.reading.subscriptions import EventReader
from holdfast.store.reading.waits import WaitReader
from holdfast.store.transitions.transaction import lane_from


class RowReader(
    PayloadReader, RunReader, RowFlowReader, RowLeaseReader, GateReader, KeyReader, ScheduleReader, WaitReader,
    StreamReader, EventReader, BudgetReader, RowGraphReader,
):  # fmt: skip
    """What can be asked of a store, one base for each capability."""


__all__ = ["RowReader", "lane_from", "route_values", "values_of"]
