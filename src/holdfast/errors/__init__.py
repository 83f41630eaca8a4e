"""All errors that Holdfast raises. The docstring of a class is its message; the facts follow it.

HoldfastError
├── UsageError                 the caller can fix it; nothing was written
│   ├── BadOption              an argument, option or setting has a value that cannot be used
│   │   └── QuorumImpossible   fewer people may decide than must agree
│   ├── BadDuration            a duration cannot be read
│   ├── NotEncodable           a value cannot be stored
│   ├── WrongType              a value does not match the annotated type
│   ├── NotInWorkflow          called outside a running workflow
│   ├── UnknownWorkflow        this process knows no such workflow
│   ├── WorkflowExists         two workflows have the same name
│   ├── NotCheckable           `holdfast check` does not know this kind of file
│   ├── NamespaceBound         the engine is bound to a namespace, and the request is outside it
│   ├── RunNotFound            no such run
│   ├── RunExists              the id or key belongs to a run with another input
│   ├── StartIncomplete        only the first parts of very many runs were started
│   ├── RunFinished            the run has ended
│   ├── RunNotFinished         the run has not ended
│   ├── RunChanged             another call has replayed the run meanwhile
│   ├── StageGone              the unfinished copy of a history for a new run was deleted
│   ├── StepNotFound           the run has no such step
│   ├── BadLease               this text is not the proof of a lease
│   ├── BadWait                a task cannot wait for a time in the past, or beyond the horizon
│   ├── NotReclaimable         the task has a holder, or was claimed or replayed too often
│   ├── WorkerNotFound         no such worker
│   ├── FlowNotFound           no such flow
│   ├── FlowNotYours           the flow belongs to another owner
│   ├── FlowExists             the id belongs to another flow
│   ├── FlowChanged            the flow has another revision than expected
│   ├── FlowFinished           the flow has ended
│   ├── FlowCancelPending      the flow was asked to stop: it can only be cancelled
│   ├── BadFlowPatch           the new state is not JSON
│   ├── BadFlowWait            the wait of a flow is not valid
│   ├── GraphRefused           the request is not possible for this graph
│   │   ├── GraphNotFound      no such graph
│   │   ├── GraphExists        the id belongs to another graph
│   │   ├── GraphBusy          another process is adding or deleting these members
│   │   ├── GraphChanged       the graph has another revision than expected
│   │   ├── GraphFinished      the graph has ended, or accepts no new members
│   │   ├── GraphCycle         members depend on each other in a cycle
│   │   ├── SelfEdge           a member depends on itself
│   │   ├── EdgeExists         the dependency exists already
│   │   ├── EdgeAcrossNamespaces a graph is in one namespace
│   │   ├── MemberNotFound     the graph has no such member
│   │   ├── MemberExists       the name belongs to another member
│   │   ├── MemberElsewhere    the run belongs to another graph, or to none
│   │   ├── MemberStarted      the member can get no further dependency
│   │   └── BadGraph           a graph is not valid
│   ├── BudgetNotFound         no such budget
│   ├── BudgetInUse            runs that have not ended draw on the budget
│   ├── UnknownDimension       the budget does not count this dimension
│   ├── LaneDraining           the lane accepts no new runs
│   ├── LaneNotFound           the lane has no settings
│   ├── LaneInUse              runs of the lane have not ended
│   ├── GateNotFound           no such gate
│   ├── GateClosed             the gate was decided, expired or withdrawn before
│   ├── AlreadyDecided         this person has decided this gate already
│   ├── NotYourGate            this person may not decide this gate
│   ├── UnknownChoice          the gate has no such choice
│   ├── WrongAnswer            the answer does not match the form
│   ├── GateChanged            the subject of the decision has changed
│   ├── KeyExists              a key with this name has another secret
│   ├── TokenRefused           a token is not valid
│   │   └── TokenExpired       the token was valid and has expired
│   ├── BadSchedule            a schedule is not valid
│   ├── ScheduleNotFound       no such schedule
│   ├── ScheduleBusy           a run of the schedule has not ended
│   ├── BadCondition           a condition is not valid or can never be met
│   ├── WaitNotFound           the run has no such open wait
│   ├── WaitClosed             the wait accepts no more signals
│   │   └── WaitExpired        the wait has expired
│   ├── TooManySignals         the run has reached its maximum number of signals
│   ├── FrameTooBig            a frame has too many bytes
│   ├── BadPatch               a patch of a summary is not a JSON object, or is nested too deep
│   ├── StreamClosed           the attempt has ended; nothing can be appended to its stream
│   ├── BadCursor              a cursor belongs to another database, or is not a cursor
│   ├── SubscriptionNotFound   no such subscription
│   ├── SubscriptionExists     the name belongs to a subscription to other events
│   ├── HistoryGone            the history of the run was deleted
│   ├── RetentionNotFound      no such retention rule
│   ├── OperationNotFound      no such bulk operation
│   ├── StatusChanged          a bulk verb: the run was selected by another status
│   ├── RunHasParent           a child is deleted with the run that started it
│   ├── KeyMissing             data is encrypted with a key that is not known here
│   └── EngineClosed           the engine was closed
├── RunFailed                  ``result()``: the run did not complete
│   ├── RunCancelled
│   ├── RunExpired
│   └── RunStuck
├── GraphFailed                ``result()``: the graph did not complete
│   └── GraphCancelled
├── StepFailed                 in a workflow: a step has used up its retries
├── StepTimeout                an attempt took longer than its timeout
├── BudgetExceeded             a budget has no room left
├── ChildFailed                in a workflow: a child run did not complete
├── GateExpired                in a workflow: a gate was not decided before its deadline
├── GateRejected               in a workflow: a gate without that option was rejected
├── GateWithdrawn              in a workflow: a gate was withdrawn
├── WaitTimeout                in a workflow: a wait was not met before its timeout
├── TooManyFailures            a ``map`` had fewer successes than it requires
├── Fail                       raised by user code: do not retry
├── Retry                      raised by user code: retry, after a while
├── ResultTimeout              ``result(timeout=...)``: the run did not end in time
├── LeaseLost                  the writer does not hold the lease; the write changed nothing
├── WriteConflict              another writer has written the row; the write changed nothing
├── Fenced                     a newer holder owns the external target; the write changed nothing
├── IllegalMove                this is not possible in the current status
├── Diverged                   the code no longer matches the history that it replays
├── RowDamaged                 a row of the database cannot be decoded; the others can
└── StoreError                 the database refused the request, or cannot be used
    ├── StoreBusy              another process kept the write lock too long
    ├── StoreGone              the files were deleted, moved or replaced while they were open
    ├── StoreFull              no room left; nothing was written
    ├── StoreReadOnly          the file cannot be written
    ├── StoreCorrupt           the file is not a sound Holdfast database
    ├── StoreTooNew            a newer Holdfast wrote this database
    ├── StoreForeign           another program has changed the tables
    ├── StoreUnavailable       the database cannot be reached
    ├── StoreInUse             a worker is using the database
    ├── StoreNotEmpty          the database has runs already
    ├── StoreHalfCopied        a copy into the database was not finished
    ├── StoreSealed            its runs continue in another database
    ├── BadUrl                 the database URL cannot be understood
    ├── CodecMismatch          the data was written with another codec
    └── BadData                stored data cannot be decoded
"""

from __future__ import annotations

from holdfast.errors.arguments import BadDuration as BadDuration
from holdfast.errors.arguments import BadOption as BadOption
from holdfast.errors.arguments import NotEncodable as NotEncodable
from holdfast.errors.arguments import WrongType as WrongType
from holdfast.errors.base import HoldfastError as HoldfastError
from holdfast.errors.base import UsageError as UsageError
from holdfast.errors.budgets import BudgetExceeded as BudgetExceeded
from holdfast.errors.budgets import BudgetInUse as BudgetInUse
from holdfast.errors.budgets import BudgetNotFound as BudgetNotFound
from holdfast.errors.budgets import UnknownDimension as UnknownDimension
from holdfast.errors.flows import BadFlowPatch as BadFlowPatch
from holdfast.errors.flows import BadFlowWait as BadFlowWait
from holdfast.errors.flows import FlowCancelPending as FlowCancelPending
from holdfast.errors.flows import FlowChanged as FlowChanged
from holdfast.errors.flows import FlowExists as FlowExists
from holdfast.errors.flows import FlowFinished as FlowFinished
from holdfast.errors.flows import FlowNotFound as FlowNotFound
from holdfast.errors.flows import FlowNotYours as FlowNotYours
from holdfast.errors.gates import AlreadyDecided as AlreadyDecided
from holdfast.errors.gates import GateChanged as GateChanged
from holdfast.errors.gates import GateClosed as GateClosed
from holdfast.errors.gates import GateExpired as GateExpired
from holdfast.errors.gates import GateNotFound as GateNotFound
from holdfast.errors.gates import GateRejected as GateRejected
from holdfast.errors.gates import GateWithdrawn as GateWithdrawn
from holdfast.errors.gates import NotYourGate as NotYourGate
from holdfast.errors.gates import QuorumImpossible as QuorumImpossible
from holdfast.errors.gates import UnknownChoice as UnknownChoice
from holdfast.errors.gates import WrongAnswer as WrongAnswer
from holdfast.errors.graphs import BadGraph as BadGraph
from holdfast.errors.graphs import EdgeAcrossNamespaces as EdgeAcrossNamespaces
from holdfast.errors.graphs import EdgeExists as EdgeExists
from holdfast.errors.graphs import GraphBusy as GraphBusy
from holdfast.errors.graphs import GraphCancelled as GraphCancelled
from holdfast.errors.graphs import GraphChanged as GraphChanged
from holdfast.errors.graphs import GraphCycle as GraphCycle
from holdfast.errors.graphs import GraphExists as GraphExists
from holdfast.errors.graphs import GraphFailed as GraphFailed
from holdfast.errors.graphs import GraphFinished as GraphFinished
from holdfast.errors.graphs import GraphNotFound as GraphNotFound
from holdfast.errors.graphs import GraphRefused as GraphRefused
from holdfast.errors.graphs import MemberElsewhere as MemberElsewhere
from holdfast.errors.graphs import MemberExists as MemberExists
from holdfast.errors.graphs import MemberNotFound as MemberNotFound
from holdfast.errors.graphs import MemberStarted as MemberStarted
from holdfast.errors.graphs import SelfEdge as SelfEdge
from holdfast.errors.graphs import StageGone as StageGone
from holdfast.errors.keys import KeyExists as KeyExists
from holdfast.errors.keys import KeyMissing as KeyMissing
from holdfast.errors.keys import TokenExpired as TokenExpired
from holdfast.errors.keys import TokenRefused as TokenRefused
from holdfast.errors.lanes import LaneDraining as LaneDraining
from holdfast.errors.lanes import LaneInUse as LaneInUse
from holdfast.errors.lanes import LaneNotFound as LaneNotFound
from holdfast.errors.operations import OperationNotFound as OperationNotFound
from holdfast.errors.operations import RunHasParent as RunHasParent
from holdfast.errors.operations import StatusChanged as StatusChanged
from holdfast.errors.retention import HistoryGone as HistoryGone
from holdfast.errors.retention import RetentionNotFound as RetentionNotFound
from holdfast.errors.runs import ChildFailed as ChildFailed
from holdfast.errors.runs import EngineClosed as EngineClosed
from holdfast.errors.runs import IllegalMove as IllegalMove
from holdfast.errors.runs import NamespaceBound as NamespaceBound
from holdfast.errors.runs import ResultTimeout as ResultTimeout
from holdfast.errors.runs import RunCancelled as RunCancelled
from holdfast.errors.runs import RunChanged as RunChanged
from holdfast.errors.runs import RunExists as RunExists
from holdfast.errors.runs import RunExpired as RunExpired
from holdfast.errors.runs import RunFailed as RunFailed
from holdfast.errors.runs import RunFinished as RunFinished
from holdfast.errors.runs import RunNotFinished as RunNotFinished
from holdfast.errors.runs import RunNotFound as RunNotFound
from holdfast.errors.runs import RunStuck as RunStuck
from holdfast.errors.runs import StartIncomplete as StartIncomplete
from holdfast.errors.runs import TooManyFailures as TooManyFailures
from holdfast.errors.runs import WriteConflict as WriteConflict
from holdfast.errors.schedules import BadSchedule as BadSchedule
from holdfast.errors.schedules import ScheduleBusy as ScheduleBusy
from holdfast.errors.schedules import ScheduleNotFound as ScheduleNotFound
from holdfast.errors.steps import Fail as Fail
from holdfast.errors.steps import Retry as Retry
from holdfast.errors.steps import StepFailed as StepFailed
from holdfast.errors.steps import StepNotFound as StepNotFound
from holdfast.errors.steps import StepTimeout as StepTimeout
from holdfast.errors.store import BadData as BadData
from holdfast.errors.store import BadUrl as BadUrl
from holdfast.errors.store import CodecMismatch as CodecMismatch
from holdfast.errors.store import RowDamaged as RowDamaged
from holdfast.errors.store import StoreBusy as StoreBusy
from holdfast.errors.store import StoreCorrupt as StoreCorrupt
from holdfast.errors.store import StoreError as StoreError
from holdfast.errors.store import StoreForeign as StoreForeign
from holdfast.errors.store import StoreFull as StoreFull
from holdfast.errors.store import StoreGone as StoreGone
from holdfast.errors.store import StoreHalfCopied as StoreHalfCopied
from holdfast.errors.store import StoreInUse as StoreInUse
from holdfast.errors.store import StoreNotEmpty as StoreNotEmpty
from holdfast.errors.store import StoreReadOnly as StoreReadOnly
from holdfast.errors.store import StoreSealed as StoreSealed
from holdfast.errors.store import StoreTooNew as StoreTooNew
from holdfast.errors.store import StoreUnavailable as StoreUnavailable
from holdfast.errors.streams import BadPatch as BadPatch
from holdfast.errors.streams import FrameTooBig as FrameTooBig
from holdfast.errors.streams import StreamClosed as StreamClosed
from holdfast.errors.subscriptions import BadCursor as BadCursor
from holdfast.errors.subscriptions import SubscriptionExists as SubscriptionExists
from holdfast.errors.subscriptions import SubscriptionNotFound as SubscriptionNotFound
from holdfast.errors.tasks import BadLease as BadLease
from holdfast.errors.tasks import BadWait as BadWait
from holdfast.errors.tasks import Fenced as Fenced
from holdfast.errors.tasks import LeaseLost as LeaseLost
from holdfast.errors.tasks import NotReclaimable as NotReclaimable
from holdfast.errors.tasks import WorkerNotFound as WorkerNotFound
from holdfast.errors.waits import BadCondition as BadCondition
from holdfast.errors.waits import TooManySignals as TooManySignals
from holdfast.errors.waits import WaitClosed as WaitClosed
from holdfast.errors.waits import WaitExpired as WaitExpired
from holdfast.errors.waits import WaitNotFound as WaitNotFound
from holdfast.errors.waits import WaitTimeout as WaitTimeout
from holdfast.errors.workflows import Diverged as Diverged
from holdfast.errors.workflows import NotCheckable as NotCheckable
from holdfast.errors.workflows import NotInWorkflow as NotInWorkflow
from holdfast.errors.workflows import UnknownWorkflow as UnknownWorkflow
from holdfast.errors.workflows import WorkflowExists as WorkflowExists
