"""The promises of ``holdfast.store.contract`` as tests, for whoever writes a store.

Subclass ``StoreContract``, give it ``open_store``, ``execute`` and ``transaction``, and pytest does the rest. Each test begins
with an empty database and a clock that stands still, and ends with a look at the laws: none may be broken.
"""

from __future__ import annotations

from holdfast.testing.conformance.advancing import Advancing, Batches, Transactional
from holdfast.testing.conformance.bench import SECOND, Bench, HandClock, OpenStore
from holdfast.testing.conformance.budgets import Budgets
from holdfast.testing.conformance.claiming import Claiming, Lanes
from holdfast.testing.conformance.damage import Damaged, SettingAside
from holdfast.testing.conformance.flows import ManagedFlows
from holdfast.testing.conformance.gates import Gates
from holdfast.testing.conformance.graph_ends import Graphs
from holdfast.testing.conformance.inputs import Inputs
from holdfast.testing.conformance.keys import Keys
from holdfast.testing.conformance.leases import ExplicitLeases
from holdfast.testing.conformance.lending import Lending
from holdfast.testing.conformance.looking import Laws, Looking, Time
from holdfast.testing.conformance.operating import Copying, Operating, Pruning
from holdfast.testing.conformance.payloads import KeptApart, PayloadLaws, Resealing, Retaining
from holdfast.testing.conformance.replaying import ReplayingChildren
from holdfast.testing.conformance.schedules import Ticking
from holdfast.testing.conformance.sealing import Sealing
from holdfast.testing.conformance.sessions import Children, Sessions
from holdfast.testing.conformance.shares import Gathering, Shares
from holdfast.testing.conformance.spending import SpendingAtOnce
from holdfast.testing.conformance.starting import Starting, StartingWithin
from holdfast.testing.conformance.streams import Streaming
from holdfast.testing.conformance.subscriptions import Subscribing
from holdfast.testing.conformance.suspensions import Suspending
from holdfast.testing.conformance.touching import Cancelling, Deadlines, Signals
from holdfast.testing.conformance.waits import Waiting


class StoreContract(
    Starting,
    StartingWithin,
    Inputs,
    Claiming,
    Lanes,
    Advancing,
    Signals,
    Waiting,
    Cancelling,
    Deadlines,
    Sessions,
    Children,
    ReplayingChildren,
    Operating,
    Copying,
    Sealing,
    Pruning,
    Lending,
    Batches,
    Looking,
    Time,
    SpendingAtOnce,
    Budgets,
    Shares,
    Gathering,
    Laws,
    ManagedFlows,
    Graphs,
    ExplicitLeases,
    Suspending,
    Gates,
    Keys,
    Ticking,
    Streaming,
    Subscribing,
    KeptApart,
    Resealing,
    Retaining,
    PayloadLaws,
    SettingAside,
    Damaged,
):
    """All promises of a store."""


__all__ = [
    "SECOND",
    "Advancing",
    "Batches",
    "Bench",
    "Budgets",
    "Cancelling",
    "Children",
    "Claiming",
    "Copying",
    "Damaged",
    "Deadlines",
    "ExplicitLeases",
    "Gates",
    "Gathering",
    "Graphs",
    "HandClock",
    "Inputs",
    "KeptApart",
    "Keys",
    "Lanes",
    "Laws",
    "Looking",
    "ManagedFlows",
    "OpenStore",
    "Operating",
    "PayloadLaws",
    "Pruning",
    "ReplayingChildren",
    "Resealing",
    "Retaining",
    "Sealing",
    "Sessions",
    "SettingAside",
    "Shares",
    "Signals",
    "SpendingAtOnce",
    "Starting",
    "StartingWithin",
    "StoreContract",
    "Streaming",
    "Subscribing",
    "Suspending",
    "Ticking",
    "Time",
    "Transactional",
    "Waiting",
]
