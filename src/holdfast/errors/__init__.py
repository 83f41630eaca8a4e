"""All errors that Holdfast raises. The docstring of a class is its message; the facts follow it.

HoldfastError
├── UsageError                 the caller can fix it; nothing was written
│   ├── BadOption              an argument, option or setting has a value that cannot be used
│   │   └── QuorumImpossible   fewer people may decide than must agree
│   ├── BadExpression          an expression cannot be read, or exceeds a limit
│   │   └── ExpressionFailed   an expression has no usable result with these values
│   │       └── VariableMissing  an expression uses a variable that has no value
│   ├── DecisionNotFound       a DMN file has no such decision
│   ├── RulesOverlap           several rules of a table with hit policy UNIQUE match
│   ├── RulesDisagree          rules of a table with hit policy ANY have different outputs
│   ├── BadDuration            a duration cannot be read
│   ├── NotEncodable           a value cannot be stored
│   ├── WrongType              a value does not match its type, or arguments their function
│   ├── NotInWorkflow          called outside a running workflow
│   ├── UnknownWorkflow        this process knows no such workflow
│   ├── WorkflowExists         two workflows have the same name
│   ├── BadWorkflow            the text or model of a workflow has errors
│   ├── BadRegistration        this cannot be registered for text workflows
│   ├── BadSettings            `holdfast.toml` cannot be used
│   ├── NotCheckable           `holdfast check` does not know this kind of file
│   ├── ModelUnreadable        a file is not a model, or is too big, too deep or has entities
│   ├── ModelRefused           a model has problems that prevent its execution
│   ├── ModelNotFound          no such deployed model, or not this version of it
│   ├── MappingRefused         the mapping of a migration does not fit the two versions
│   ├── ModelKindUnknown       this is no source of a model
│   ├── NotThere               no token waits at that element
│   ├── NoReceiver             nothing waits for the message, and it has no time to live
│   ├── TaskClosed             the task is not open any more
│   ├── Unanswered             no worker has applied an instruction in time
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
│   ├── ApiKeyNotFound         no such API key
│   ├── ApiKeyExists           the name belongs to another API key
│   ├── BadRequest             the server cannot read the request
│   ├── RequestTooLarge        the body of a request is too large
│   ├── TooManyRequests        an API key sends too many requests
│   ├── NotAuthenticated       the request has no valid API key or login session
│   ├── RightMissing           the API key lacks a right
│   ├── HostRefused            the server does not answer for this host name
│   ├── OriginRefused          a request of a login session comes from another page
│   ├── RequestKeyReused       an idempotency key belongs to another request
│   ├── RouteNotFound          the server has no such address
│   ├── MethodRefused          the address does not accept this method
│   ├── RemoteWorkerNotFound   no such remote worker
│   ├── NotRemote              the call is not available over HTTP
│   ├── PortInUse              another program listens on the port
│   ├── ServerNeedsKey         without an API key, the server listens on loopback only
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
├── BpmnError                  raised by handlers of models: a BPMN error
├── LoopEnded                  a loop of a text did not come to its end
├── GateFailed                 a gate of a text was not approved
├── ParallelFailed             too few branches of a parallel block succeeded
├── FanoutFailed               the items of a foreach failed
├── ConditionFailed            a condition of a text cannot be evaluated
├── WaitFailed                 a wait of a text ended without success
├── BadStepOutput              the answer of a step cannot be used
├── ScriptFailed               a script did not succeed
├── ProgramUnusable            a program of the library cannot be used
├── BadItem                    a provider returned items that cannot be used
├── MissingExecutor            this worker has no executor for a call
├── TooDeep                    sub-workflows are nested too deep
├── UnknownSubflow             no workflow has the called name
├── TooManyFailures            a ``map`` had fewer successes than it requires
├── Fail                       raised by user code: do not retry
├── Retry                      raised by user code: retry, after a while
├── ResultTimeout              ``result(timeout=...)``: the run did not end in time
├── LeaseLost                  the writer does not hold the lease; the write changed nothing
├── WriteConflict              another writer has written the row; the write changed nothing
├── Fenced                     a newer holder owns the external target; the write changed nothing
├── IllegalMove                this is not possible in the current status
├── Diverged                   the code no longer matches the history that it replays
├── ServerUnreachable          the client cannot reach the server
├── RowDamaged                 a row of the database cannot be decoded; the others can
└── StoreError                 the database refused the request, or cannot be used
    ├── StoreBusy              another process kept the write lock too long
    ├── StoreGone              the files were deleted, moved or replaced while they were open
    ├── StoreFull              no room left; nothing was written
    ├── StoreReadOnly          the file cannot be written
    ├── StoreCorrupt           the file is not a sound Holdfast database
    ├── StoreTooNew            a newer Holdfast wrote this database
    ├── MigrationDue           the tables are older than this Holdfast
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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.errors.api_keys import *
    from holdfast.errors.arguments import *
    from holdfast.errors.base import HoldfastError as HoldfastError
    from holdfast.errors.base import UsageError as UsageError
    from holdfast.errors.budgets import *
    from holdfast.errors.decisions import *
    from holdfast.errors.definitions import *
    from holdfast.errors.expressions import *
    from holdfast.errors.flows import *
    from holdfast.errors.gates import *
    from holdfast.errors.graphs import *
    from holdfast.errors.keys import *
    from holdfast.errors.lanes import *
    from holdfast.errors.models import *
    from holdfast.errors.operations import *
    from holdfast.errors.retention import *
    from holdfast.errors.runs import *
    from holdfast.errors.schedules import *
    from holdfast.errors.server import *
    from holdfast.errors.steps import *
    from holdfast.errors.store import *
    from holdfast.errors.streams import *
    from holdfast.errors.subscriptions import *
    from holdfast.errors.tasks import *
    from holdfast.errors.waits import *
    from holdfast.errors.wf_runs import *
    from holdfast.errors.workflows import *

_HOMES = {
    "api_keys": "ApiKeyExists ApiKeyNotFound",
    "arguments": "BadDuration BadOption NotEncodable WrongType",
    "base": "HoldfastError UsageError",
    "budgets": "BudgetExceeded BudgetInUse BudgetNotFound UnknownDimension",
    "decisions": "DecisionNotFound RulesDisagree RulesOverlap",
    "definitions": (
        "MappingRefused ModelKindUnknown ModelNotFound NoReceiver NotThere TaskClosed Unanswered"
    ),
    "expressions": "BadExpression ExpressionFailed VariableMissing",
    "flows": (
        "BadFlowPatch BadFlowWait FlowCancelPending FlowChanged FlowExists FlowFinished "
        "FlowNotFound FlowNotYours"
    ),
    "gates": (
        "AlreadyDecided GateChanged GateClosed GateExpired GateNotFound GateRejected "
        "GateWithdrawn NotYourGate QuorumImpossible UnknownChoice WrongAnswer"
    ),
    "graphs": (
        "BadGraph EdgeAcrossNamespaces EdgeExists GraphBusy GraphCancelled GraphChanged "
        "GraphCycle GraphExists GraphFailed GraphFinished GraphNotFound GraphRefused "
        "MemberElsewhere MemberExists MemberNotFound MemberStarted SelfEdge StageGone"
    ),
    "keys": "KeyExists KeyMissing TokenExpired TokenRefused",
    "lanes": "LaneDraining LaneInUse LaneNotFound",
    "models": "BpmnError ModelRefused ModelUnreadable",
    "operations": "OperationNotFound RunHasParent StatusChanged",
    "retention": "HistoryGone RetentionNotFound",
    "runs": (
        "ChildFailed EngineClosed IllegalMove NamespaceBound ResultTimeout RunCancelled "
        "RunChanged RunExists RunExpired RunFailed RunFinished RunNotFinished RunNotFound "
        "RunStuck StartIncomplete TooManyFailures WriteConflict"
    ),
    "schedules": "BadSchedule ScheduleBusy ScheduleNotFound",
    "server": (
        "BadRequest HostRefused MethodRefused NotAuthenticated NotRemote OriginRefused "
        "PortInUse RemoteWorkerNotFound RequestKeyReused RequestTooLarge RightMissing "
        "RouteNotFound ServerNeedsKey ServerUnreachable TooManyRequests"
    ),
    "steps": "Fail Retry StepFailed StepNotFound StepTimeout",
    "store": (
        "BadData BadUrl CodecMismatch MigrationDue RowDamaged StoreBusy StoreCorrupt StoreError "
        "StoreForeign StoreFull StoreGone StoreHalfCopied StoreInUse StoreNotEmpty "
        "StoreReadOnly StoreSealed StoreTooNew StoreUnavailable"
    ),
    "streams": "BadPatch FrameTooBig StreamClosed",
    "subscriptions": "BadCursor SubscriptionExists SubscriptionNotFound",
    "tasks": "BadLease BadWait Fenced LeaseLost NotReclaimable WorkerNotFound",
    "waits": "BadCondition TooManySignals WaitClosed WaitExpired WaitNotFound WaitTimeout",
    "wf_runs": (
        "BadItem BadRegistration BadSettings BadStepOutput ConditionFailed FanoutFailed "
        "GateFailed LoopEnded MissingExecutor ParallelFailed ProgramUnusable ScriptFailed "
        "TooDeep UnknownSubflow WaitFailed"
    ),
    "workflows": "BadWorkflow Diverged NotCheckable NotInWorkflow UnknownWorkflow WorkflowExists",
}
"""The errors by the module that has them. A module is loaded when one of its errors is first used:
few programs meet the errors of all features."""

_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
__all__ = [*_HOME]

if not TYPE_CHECKING:  # a type checker must refuse unknown names

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        error = getattr(import_module(f"holdfast.errors.{_HOME[name]}"), name)
        globals()[name] = error  # saves this function at the next use
        return error


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
