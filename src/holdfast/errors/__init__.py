"""Every error that Holdfast raises. The docstring is the message; the facts follow it.

HoldfastError
├── UsageError                 the caller can fix it; nothing was written
│   ├── BadOption              an argument, option or setting makes no sense
│   │   └── QuorumImpossible   fewer people may decide than must agree
│   ├── BadDuration            a duration cannot be read
│   ├── NotEncodable           a value cannot be stored
│   ├── WrongType              a value does not fit the annotation
│   ├── NotInWorkflow          called outside a running workflow
│   ├── UnknownWorkflow        no such workflow in this process
│   ├── WorkflowExists         two workflows want one name
│   ├── NamespaceBound         the engine is bound to a namespace, and this lies outside it
│   ├── RunNotFound            no such run
│   ├── RunExists              the id or key belongs to a run with other input
│   ├── StartIncomplete        only the first parts of very many runs were started
│   ├── RunFinished            the run has ended
│   ├── RunNotFinished         the run has not ended
│   ├── RunChanged             the run was replayed by another call meanwhile
│   ├── StageGone              what was written for a new run was deleted before all of it was there
│   ├── StepNotFound           the run has no such step
│   ├── BadLease               this is no proof of a lease
│   ├── BadWait                a task cannot wait in the past, nor beyond the horizon
│   ├── NotReclaimable         somebody holds the task, or it was taken up too often
│   ├── FlowNotFound           no such flow
│   ├── FlowNotYours           the flow belongs to another owner
│   ├── FlowExists             the id belongs to another flow
│   ├── FlowChanged            the flow has another revision than expected
│   ├── FlowFinished           the flow has ended
│   ├── FlowCancelPending      the flow was asked to stop: it can only be cancelled
│   ├── BadFlowPatch           the new state cannot be read
│   ├── BadFlowWait            the flow cannot wait for that
│   ├── GraphRefused           what was asked of a graph cannot be
│   │   ├── GraphNotFound      no such graph
│   │   ├── GraphExists        the id belongs to another graph
│   │   ├── GraphBusy          another process is adding or deleting these members
│   │   ├── GraphChanged       the graph has another revision than expected
│   │   ├── GraphFinished      the graph has ended, or takes nothing new
│   │   ├── GraphCycle         members would wait for each other
│   │   ├── SelfEdge           a member would wait for itself
│   │   ├── EdgeExists         the dependency is there already
│   │   ├── EdgeAcrossNamespaces a graph lives in one namespace
│   │   ├── MemberNotFound     the graph has no such member
│   │   ├── MemberExists       the name belongs to another member
│   │   ├── MemberElsewhere    the run belongs to another graph, or to none
│   │   ├── MemberStarted      too late for another dependency
│   │   └── BadGraph           a graph makes no sense
│   ├── BudgetNotFound         no such budget
│   ├── UnknownDimension       the budget does not count that
│   ├── LaneDraining           the lane takes no new runs
│   ├── GateNotFound           no such gate
│   ├── GateClosed             the gate was decided, expired or withdrawn before
│   ├── AlreadyDecided         one person decides once
│   ├── NotYourGate            somebody else may decide, not this person
│   ├── UnknownChoice          the gate has no such choice
│   ├── WrongAnswer            what was filled in does not fit the form
│   ├── GateChanged            what the decision was about has changed meanwhile
│   ├── KeyExists              a key of that name has another secret
│   ├── TokenRefused           a token proves nothing
│   │   └── TokenExpired       it was a true one, and its time is over
│   ├── BadSchedule            a schedule makes no sense
│   ├── ScheduleNotFound       no such schedule
│   ├── ScheduleBusy           a run of the schedule is still at work
│   ├── BadCondition           nothing could ever meet this condition
│   ├── WaitNotFound           the run has no such open wait
│   ├── WaitClosed             the wait takes no more signals
│   │   └── WaitExpired        its time is over
│   ├── TooManySignals         the run has as many signals as it may have
│   ├── FrameTooBig            a frame holds too much
│   ├── BadPatch               a patch of a summary is no JSON object, or too deep
│   ├── StreamClosed           the attempt has ended; nothing can be appended to its stream
│   ├── BadCursor              a cursor is of another database, or is none
│   ├── SubscriptionNotFound   no such subscription
│   ├── SubscriptionExists     the name belongs to a subscription to other events
│   ├── HistoryGone            the history of the run was deleted
│   ├── RetentionNotFound      no such retention rule
│   ├── KeyMissing             data is encrypted with a key that is not known here
│   └── EngineClosed           the engine was closed
├── RunFailed                  what ``result()`` raises when a run did not complete
│   ├── RunCancelled
│   ├── RunExpired
│   └── RunStuck
├── GraphFailed                what ``result()`` raises when a graph did not complete
│   └── GraphCancelled
├── StepFailed                 what a workflow sees when a step has used up its retries
├── StepTimeout                an attempt took longer than its timeout
├── BudgetExceeded             there is no room in a budget
├── ChildFailed                what a workflow sees when a child run did not complete
├── GateExpired                what a workflow sees when nobody decided in time
├── GateRejected               what a workflow sees when people reject what it gave no option to reject
├── GateWithdrawn              what a workflow sees when somebody has withdrawn its gate
├── WaitTimeout                what a workflow sees when a wait was not met in time
├── TooManyFailures            a ``map`` had fewer successes than it needs
├── Fail                       raised by user code: do not retry
├── Retry                      raised by user code: try again, after a while
├── ResultTimeout              ``result(timeout=...)`` waited long enough
├── LeaseLost                  whoever wrote does not hold the run; the write changed nothing
├── WriteConflict              a row was there already; the write changed nothing
├── Fenced                     somebody newer was here; the write outside changed nothing
├── IllegalMove                this cannot happen in this status
├── Diverged                   the code no longer matches the history that it replays
├── RowDamaged                 a row of the database cannot be read; the others can
└── StoreError                 the database said no
    ├── StoreBusy              somebody else kept the write lock too long
    ├── StoreGone              the files were deleted, moved or replaced while they were open
    ├── StoreFull              no room left; nothing was written
    ├── StoreReadOnly          the file cannot be written
    ├── StoreCorrupt           this is not a sound Holdfast database
    ├── StoreTooNew            a newer Holdfast wrote this database
    ├── StoreForeign           this database belongs to something else
    ├── StoreUnavailable       the database cannot be reached
    ├── StoreInUse             somebody works on it
    ├── StoreNotEmpty          there are runs in it already
    ├── StoreHalfCopied        a copy into it did not come to its end
    ├── StoreSealed            its runs continue in another database
    ├── BadUrl                 the database URL cannot be understood
    ├── CodecMismatch          the data was written with another codec
    └── BadData                stored data cannot be read
"""

from __future__ import annotations

from holdfast.errors.base import HoldfastError as HoldfastError
from holdfast.errors.base import UsageError as UsageError
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


class BadOption(UsageError):
    """This option cannot be used like that."""


class QuorumImpossible(BadOption):
    """Fewer people may decide than must agree: name more of them, or ask for fewer."""


class BadDuration(UsageError):
    """This is no duration: use seconds, a timedelta, "50ms", "1h30m", "2d" or ISO 8601 like "PT5M"."""


class NotEncodable(UsageError):
    """This value cannot be stored: use plain data, dataclasses, msgspec or pydantic models, datetimes, UUIDs, enums or bytes."""


class WrongType(UsageError):
    """This value does not fit the annotation."""


class NotInWorkflow(UsageError):
    """This works only inside a running workflow."""


class UnknownWorkflow(UsageError):
    """No workflow of that name is known to this process: import the module that defines it."""


class WorkflowExists(UsageError):
    """Two workflows want the same name: give one of them name=... in its decorator."""


class NamespaceBound(UsageError):
    """This engine is bound to a namespace and this lies outside it: use an engine that is bound to that namespace, or to none."""


class RunNotFound(UsageError):
    """There is no such run: `holdfast runs` lists what there is."""


class RunExists(UsageError):
    """This id or key already belongs to a run with other input: choose another one, or start with the same input."""


class StartIncomplete(UsageError):
    """Only some of these runs were started: ``run_ids`` of this error are theirs. Mend the reason, then start the other items."""

    run_ids: tuple[str, ...] = ()


class RunFinished(UsageError):
    """The run has ended: `holdfast replay` or `holdfast fork` can start from it again."""


class RunNotFinished(UsageError):
    """The run has not ended yet: cancel it first, or wait."""


class RunChanged(UsageError):
    """The run was replayed by another call at the same time, and has ended again: look at it again, then decide."""


class StepNotFound(UsageError):
    """The run has no such step: `holdfast show RUN` lists its steps."""


class BadLease(UsageError):
    """This is no proof of a lease."""


class BadWait(UsageError):
    """A task cannot wait like this; nothing was written."""


class NotReclaimable(UsageError):
    """This run cannot be reclaimed, or replayed, now."""


class FlowNotFound(UsageError):
    """There is no such flow; `holdfast flows` lists them."""


class FlowNotYours(UsageError):
    """This flow belongs to another owner."""


class FlowExists(UsageError):
    """There is a flow with this id already."""


class FlowChanged(UsageError):
    """The flow was changed by somebody else meanwhile; read it again, then decide."""


class FlowFinished(UsageError):
    """This flow has ended; nothing more can happen to it."""


class FlowCancelPending(UsageError):
    """This flow was asked to stop; all that can be done to it is to cancel it."""


class BadFlowPatch(UsageError):
    """The state of a flow must be JSON."""


class BadFlowWait(UsageError):
    """A flow cannot wait for this."""


class BudgetNotFound(UsageError):
    """There is no such budget: `holdfast budgets` lists what there is, `holdfast budgets set` makes one."""


class UnknownDimension(UsageError):
    """The budget does not count this dimension: name one that it does, or add it with `holdfast budgets set`."""


class LaneDraining(UsageError):
    """The lane is being drained and takes no new runs: `holdfast lanes set LANE --open` lets it."""


class GateNotFound(UsageError):
    """There is no such gate: `holdfast gates` lists those that are open."""


class GateClosed(UsageError):
    """This gate is closed, and nothing was changed."""


class AlreadyDecided(UsageError):
    """This person has decided already, and the first decision stands."""


class NotYourGate(UsageError):
    """This decision is not theirs."""


class UnknownChoice(UsageError):
    """This cannot be chosen here."""


class WrongAnswer(UsageError):
    """What was filled in does not fit the form."""


class GateChanged(UsageError):
    """What this decision is about has changed: look at it again, then decide."""


class KeyExists(UsageError):
    """A key of that name has another secret: choose another name."""


class TokenRefused(UsageError):
    """This token is not known here: ask for a new one."""


class TokenExpired(TokenRefused):
    """This token was good once, and its time is over: ask for a new one."""


class BadSchedule(UsageError):
    """This schedule makes no sense; nothing was written."""


class ScheduleNotFound(UsageError):
    """There is no such schedule: `holdfast schedules` lists what there is."""


class ScheduleBusy(UsageError):
    """A run of this schedule is still at work, and its overlap is skip: nothing was started."""


class BadCondition(UsageError):
    """This condition cannot be waited for."""


class WaitNotFound(UsageError):
    """The run has no such open wait: `holdfast waits RUN` lists those it has."""


class WaitClosed(UsageError):
    """This wait is closed and takes no more signals."""


class WaitExpired(WaitClosed):
    """This wait has expired and takes no more signals."""


class TooManySignals(UsageError):
    """The run has as many signals as it may have: nothing was written."""


class FrameTooBig(UsageError):
    """A frame holds at most 65536 bytes: write it in pieces, or store it elsewhere and emit where."""


class BadPatch(UsageError):
    """This cannot change a summary: give a JSON object, nested at most 16 deep."""


class StreamClosed(UsageError):
    """The attempt at this step has ended: nothing can be appended to its stream any more."""


class BadCursor(UsageError):
    """This cursor cannot be read on from: begin without one, or with one that this database gave out."""


class SubscriptionNotFound(UsageError):
    """There is no such subscription: `holdfast subscriptions` lists what there is."""


class SubscriptionExists(UsageError):
    """This name belongs to a subscription to other events, or of another kind: choose another one, or remove it first."""


class HistoryGone(UsageError):
    """The history of this run was deleted by a retention rule: it can be neither replayed nor forked."""


class RetentionNotFound(UsageError):
    """There is no such retention rule: `holdfast retention` lists what there is."""


class KeyMissing(UsageError):
    """This is encrypted with a key that is not known here: nothing is lost; give the key, and try again."""


class EngineClosed(UsageError):
    """The engine was closed: open a new one."""


class RunFailed(HoldfastError):
    """The run did not complete."""

    @property
    def error(self) -> dict[str, object] | None:
        """What the failing code raised: type, message, traceback."""
        error = self.facts.get("error")
        return error if isinstance(error, dict) else None


class RunCancelled(RunFailed):
    """The run was cancelled."""


class RunExpired(RunFailed):
    """The run passed its deadline."""


class RunStuck(RunFailed):
    """The run cannot go on without a person: `holdfast why RUN` says what to do."""


class StepFailed(HoldfastError):
    """A step failed and will not be tried again."""


class StepTimeout(HoldfastError):
    """The step took longer than its timeout."""


class BudgetExceeded(HoldfastError):
    """There is no room left in the budget: `holdfast budgets raise` makes room."""

    breach: object = None
    wanted: object = None


class ChildFailed(HoldfastError):
    """A child run did not complete."""


class GateExpired(HoldfastError, TimeoutError):
    """Nobody has decided in time."""


class GateRejected(HoldfastError):
    """It was rejected."""


class GateWithdrawn(HoldfastError):
    """Somebody has withdrawn the gate before it was decided."""


class WaitTimeout(HoldfastError, TimeoutError):
    """What was waited for has not come in time."""


class TooManyFailures(HoldfastError):
    """Too many of the mapped calls failed."""


def _told(message: object) -> dict[str, object]:
    return {} if isinstance(message, str) and not message else {"message": message}


class Fail(HoldfastError):
    """The step says that trying again is of no use."""

    def __init__(self, message: str = "", **facts: object) -> None:
        super().__init__(**_told(message), **facts)


class Retry(HoldfastError):
    """The step asks to be tried again."""

    def __init__(self, message: str = "", *, after: object = None, **facts: object) -> None:
        self.after = after
        super().__init__(**_told(message), **({} if after is None else {"after": after}), **facts)

    def __reduce__(self) -> tuple[object, ...]:
        return (Retry, (str(self.facts.get("message", "")),))


class ResultTimeout(HoldfastError, TimeoutError):
    """The run has not ended within the time given; it goes on."""


class LeaseLost(HoldfastError):
    """Whoever wrote does not hold this run: the write was refused and changed nothing."""


class WriteConflict(HoldfastError):
    """Another writer has written the same row: this write changed nothing; read again, then try again."""


class Fenced(HoldfastError):
    """Somebody newer, or another run, owns what was to be written: the write was refused and changed nothing."""


class IllegalMove(HoldfastError):
    """This cannot happen in this status."""


class Diverged(HoldfastError):
    """The code no longer matches the recorded history."""
