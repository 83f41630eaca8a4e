"""Conformance suite for stores: the promises of ``holdfast.store`` as tests.

The author of a store subclasses ``StoreContract`` and implements ``open_store``, ``execute`` and
``transaction``; pytest collects the tests from the subclass. Each test begins with an empty
database and a clock that moves only by hand. At its end, a test that uses the fixture ``store``
also checks the laws and fails if one is broken.
"""

from __future__ import annotations

from holdfast.testing.conformance.advance import (
    AdvanceConformance,
    BatchConformance,
    TransactionalStepFixture,
)
from holdfast.testing.conformance.budget_batches import BudgetBatchConformance
from holdfast.testing.conformance.budgets import BudgetConformance
from holdfast.testing.conformance.claim import ClaimConformance, LaneLimitConformance
from holdfast.testing.conformance.damage import DamageConformance, SetAsideConformance
from holdfast.testing.conformance.fixture import SECOND, HandClock, OpenStore, StoreFixture
from holdfast.testing.conformance.flows import FlowConformance
from holdfast.testing.conformance.gates import GateConformance
from holdfast.testing.conformance.graph_ends import GraphConformance
from holdfast.testing.conformance.keys import KeyConformance
from holdfast.testing.conformance.lanes import DebounceConformance, ShareConformance
from holdfast.testing.conformance.large_inputs import LargeInputConformance
from holdfast.testing.conformance.operations import (
    CopyConformance,
    OperatorConformance,
    PruneConformance,
)
from holdfast.testing.conformance.payloads import (
    PayloadConformance,
    PayloadLawConformance,
    ResealConformance,
    RetentionConformance,
)
from holdfast.testing.conformance.reading import ClockConformance, LawConformance, ReadConformance
from holdfast.testing.conformance.replays import ChildReplayConformance
from holdfast.testing.conformance.schedules import ScheduleConformance
from holdfast.testing.conformance.sealing import SealConformance
from holdfast.testing.conformance.sessions import ChildConformance, SessionConformance
from holdfast.testing.conformance.signals import (
    CancelConformance,
    DeadlineConformance,
    SignalConformance,
)
from holdfast.testing.conformance.start import StartConformance, UserTransactionConformance
from holdfast.testing.conformance.streams import StreamConformance
from holdfast.testing.conformance.subscriptions import SubscriptionConformance
from holdfast.testing.conformance.suspensions import SuspensionConformance
from holdfast.testing.conformance.tasks import TaskConformance
from holdfast.testing.conformance.user_connections import UserConnectionConformance
from holdfast.testing.conformance.waits import WaitConformance


class StoreContract(
    StartConformance,
    UserTransactionConformance,
    LargeInputConformance,
    ClaimConformance,
    LaneLimitConformance,
    AdvanceConformance,
    SignalConformance,
    WaitConformance,
    CancelConformance,
    DeadlineConformance,
    SessionConformance,
    ChildConformance,
    ChildReplayConformance,
    OperatorConformance,
    CopyConformance,
    SealConformance,
    PruneConformance,
    UserConnectionConformance,
    BatchConformance,
    ReadConformance,
    ClockConformance,
    BudgetBatchConformance,
    BudgetConformance,
    ShareConformance,
    DebounceConformance,
    LawConformance,
    FlowConformance,
    GraphConformance,
    TaskConformance,
    SuspensionConformance,
    GateConformance,
    KeyConformance,
    ScheduleConformance,
    StreamConformance,
    SubscriptionConformance,
    PayloadConformance,
    ResealConformance,
    RetentionConformance,
    PayloadLawConformance,
    SetAsideConformance,
    DamageConformance,
):
    """All tests that a store must pass."""


__all__ = [
    "SECOND",
    "AdvanceConformance",
    "BatchConformance",
    "BudgetBatchConformance",
    "BudgetConformance",
    "CancelConformance",
    "ChildConformance",
    "ChildReplayConformance",
    "ClaimConformance",
    "ClockConformance",
    "CopyConformance",
    "DamageConformance",
    "DeadlineConformance",
    "DebounceConformance",
    "FlowConformance",
    "GateConformance",
    "GraphConformance",
    "HandClock",
    "KeyConformance",
    "LaneLimitConformance",
    "LargeInputConformance",
    "LawConformance",
    "OpenStore",
    "OperatorConformance",
    "PayloadConformance",
    "PayloadLawConformance",
    "PruneConformance",
    "ReadConformance",
    "ResealConformance",
    "RetentionConformance",
    "ScheduleConformance",
    "SealConformance",
    "SessionConformance",
    "SetAsideConformance",
    "ShareConformance",
    "SignalConformance",
    "StartConformance",
    "StoreContract",
    "StoreFixture",
    "StreamConformance",
    "SubscriptionConformance",
    "SuspensionConformance",
    "TaskConformance",
    "TransactionalStepFixture",
    "UserTransactionConformance",
    "WaitConformance",
]
