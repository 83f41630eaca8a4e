"""Conformance suite for stores: the promises of ``holdfast.store`` as tests.

The author of a store subclasses ``StoreContract`` and implements ``open_store``, ``execute`` and
``transaction``; pytest collects the tests from the subclass. Each test begins with an empty
database and a clock that moves only by hand. At its end, a test that uses the fixture ``store``
also checks the laws and fails if one is broken.
"""

from __future__ import annotations

from holdfast.testing.conformance.advance import AdvanceConformance
from holdfast.testing.conformance.api_keys import ApiKeyConformance
from holdfast.testing.conformance.audit import AuditConformance
from holdfast.testing.conformance.batches import BatchConformance
from holdfast.testing.conformance.budget_batches import BudgetBatchConformance
from holdfast.testing.conformance.budget_removal import BudgetRemovalConformance
from holdfast.testing.conformance.budget_room import BudgetRoomConformance
from holdfast.testing.conformance.budgets import BudgetConformance
from holdfast.testing.conformance.bulk import BulkConformance
from holdfast.testing.conformance.children import ChildConformance
from holdfast.testing.conformance.claim import ClaimConformance, LaneLimitConformance
from holdfast.testing.conformance.copying import CopyConformance
from holdfast.testing.conformance.damage import DamageConformance
from holdfast.testing.conformance.damaged_schedules import DamagedScheduleConformance
from holdfast.testing.conformance.definitions import DefinitionConformance
from holdfast.testing.conformance.fixture import SECOND, HandClock, OpenStore, StoreFixture
from holdfast.testing.conformance.flows import FlowConformance
from holdfast.testing.conformance.gate_inbox import GateInboxConformance
from holdfast.testing.conformance.gates import GateConformance
from holdfast.testing.conformance.gauges import GaugeConformance
from holdfast.testing.conformance.graph_ends import GraphConformance
from holdfast.testing.conformance.imports import ImportConformance
from holdfast.testing.conformance.keys import KeyConformance
from holdfast.testing.conformance.lanes import DebounceConformance, ShareConformance
from holdfast.testing.conformance.large_inputs import LargeInputConformance
from holdfast.testing.conformance.messages import MessageConformance
from holdfast.testing.conformance.operations import OperatorConformance
from holdfast.testing.conformance.payloads import (
    PayloadConformance,
    PayloadLawConformance,
    ResealConformance,
)
from holdfast.testing.conformance.pruning import PruneConformance
from holdfast.testing.conformance.reading import ClockConformance, LawConformance, ReadConformance
from holdfast.testing.conformance.replays import ChildReplayConformance
from holdfast.testing.conformance.request_keys import RequestKeyConformance
from holdfast.testing.conformance.retention import RetentionConformance
from holdfast.testing.conformance.schedules import ScheduleConformance
from holdfast.testing.conformance.sealing import SealConformance
from holdfast.testing.conformance.sessions import SessionConformance
from holdfast.testing.conformance.set_aside import SetAsideConformance
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
from holdfast.testing.conformance.transactional_steps import TransactionalStepFixture
from holdfast.testing.conformance.user_connections import UserConnectionConformance
from holdfast.testing.conformance.wait_effects import WaitEffectConformance
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
    WaitEffectConformance,
    CancelConformance,
    DeadlineConformance,
    SessionConformance,
    ChildConformance,
    ChildReplayConformance,
    OperatorConformance,
    ImportConformance,
    CopyConformance,
    SealConformance,
    PruneConformance,
    UserConnectionConformance,
    BatchConformance,
    GaugeConformance,
    ReadConformance,
    ClockConformance,
    BudgetBatchConformance,
    BudgetConformance,
    BudgetRoomConformance,
    BudgetRemovalConformance,
    ShareConformance,
    DebounceConformance,
    LawConformance,
    FlowConformance,
    GraphConformance,
    TaskConformance,
    SuspensionConformance,
    GateConformance,
    GateInboxConformance,
    KeyConformance,
    DefinitionConformance,
    ApiKeyConformance,
    AuditConformance,
    RequestKeyConformance,
    MessageConformance,
    ScheduleConformance,
    StreamConformance,
    SubscriptionConformance,
    PayloadConformance,
    ResealConformance,
    RetentionConformance,
    BulkConformance,
    PayloadLawConformance,
    SetAsideConformance,
    DamageConformance,
    DamagedScheduleConformance,
):
    """All tests that a store must pass."""


__all__ = [
    "SECOND",
    "AdvanceConformance",
    "BatchConformance",
    "BudgetBatchConformance",
    "BudgetConformance",
    "BudgetRemovalConformance",
    "BudgetRoomConformance",
    "BulkConformance",
    "CancelConformance",
    "ChildConformance",
    "ChildReplayConformance",
    "ClaimConformance",
    "ClockConformance",
    "CopyConformance",
    "DamageConformance",
    "DamagedScheduleConformance",
    "DeadlineConformance",
    "DebounceConformance",
    "DefinitionConformance",
    "FlowConformance",
    "GateConformance",
    "GateInboxConformance",
    "GaugeConformance",
    "GraphConformance",
    "HandClock",
    "ImportConformance",
    "KeyConformance",
    "LaneLimitConformance",
    "LargeInputConformance",
    "LawConformance",
    "MessageConformance",
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
    "WaitEffectConformance",
]
