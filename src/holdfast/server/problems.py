"""Errors as ``application/problem+json``. One table maps every class of errors to a status."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from holdfast import errors
from holdfast.errors import HoldfastError
from holdfast.errors.base import safe_repr, sentence_of
from holdfast.views.values import as_json

_BY_STATUS: dict[int, str] = {
    400: "BadCursor BadRequest",
    401: "NotAuthenticated TokenRefused",
    403: "FlowNotYours NamespaceBound NotYourGate OriginRefused RightMissing",
    404: (
        "ApiKeyNotFound BudgetNotFound DecisionNotFound FlowNotFound GateNotFound GraphNotFound"
        " LaneNotFound"
        " MemberNotFound ModelNotFound OperationNotFound RemoteWorkerNotFound RetentionNotFound"
        " RouteNotFound"
        " RunNotFound ScheduleNotFound StepNotFound SubscriptionNotFound UnknownWorkflow"
        " WaitNotFound WorkerNotFound"
    ),
    405: "MethodRefused",
    408: "ResultTimeout Unanswered",
    409: (
        "AlreadyDecided ApiKeyExists BudgetExceeded BudgetInUse Diverged EdgeExists Fenced"
        " FlowCancelPending FlowChanged FlowExists FlowFinished GateChanged GateClosed GraphBusy"
        " GraphChanged GraphExists GraphFinished GraphRefused IllegalMove KeyExists KeyMissing"
        " LaneDraining LaneInUse LeaseLost MemberElsewhere MemberExists MemberStarted NoReceiver"
        " NotReclaimable NotThere PortInUse RequestKeyReused RunChanged RunExists RunFinished"
        " RunHasParent RunNotFinished ScheduleBusy StartIncomplete StatusChanged StreamClosed"
        " SubscriptionExists TaskClosed TooManySignals WaitClosed WorkflowExists WriteConflict"
    ),
    410: "HistoryGone StageGone TokenExpired WaitExpired",
    413: "FrameTooBig RequestTooLarge",
    421: "HostRefused",
    422: (
        "BadCondition BadDuration BadExpression BadFlowPatch BadFlowWait BadGraph BadLease"
        " BadOption BadPatch BadRegistration BadSchedule BadSettings BadUrl BadWait BadWorkflow"
        " EdgeAcrossNamespaces MappingRefused"
        " ExpressionFailed Fail GraphCycle ModelKindUnknown ModelRefused ModelUnreadable"
        " NotCheckable NotEncodable NotInWorkflow NotRemote QuorumImpossible Retry SelfEdge"
        " RulesDisagree RulesOverlap"
        " UnknownChoice UnknownDimension UsageError VariableMissing WrongAnswer WrongType"
    ),
    424: (
        "BpmnError ChildFailed GateExpired GateRejected GateWithdrawn GraphCancelled GraphFailed"
        " RunCancelled RunExpired RunFailed RunStuck StepFailed StepTimeout TooManyFailures"
        " WaitTimeout"
        " BadItem BadStepOutput ConditionFailed FanoutFailed GateFailed LoopEnded MissingExecutor"
        " ParallelFailed ProgramUnusable ScriptFailed TooDeep UnknownSubflow WaitFailed"
    ),
    429: "TooManyRequests",
    500: (
        "BadData CodecMismatch HoldfastError RowDamaged ServerNeedsKey StoreCorrupt StoreError"
        " StoreForeign StoreHalfCopied StoreNotEmpty StoreReadOnly StoreTooNew"
    ),
    502: "ServerUnreachable",
    503: "EngineClosed MigrationDue StoreBusy StoreGone StoreInUse StoreSealed StoreUnavailable",
    507: "StoreFull",
}

STATUSES: dict[str, int] = {
    name: status for status, names in _BY_STATUS.items() for name in names.split()
}
"""The status of each error, by the name of its class."""

RETRY_AFTER = {429: "1", 503: "2"}
"""Seconds after which a client should try again, by status."""


class ProblemView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A problem as RFC 9457 describes it. ``facts`` are the facts of the error, ``remedy`` is what
    to do."""

    type: str
    title: str
    status: int
    detail: str
    facts: dict[str, Any] = {}
    remedy: str | None = None


def status_of(kind: type[HoldfastError]) -> int:
    """Return the status of an error; of a class that is not in the table, the one of its base."""
    for base in kind.__mro__:
        if base.__name__ in STATUSES:
            return STATUSES[base.__name__]
    return 500


def problem_of(error: HoldfastError) -> ProblemView:
    """Return the problem that describes an error."""
    kind = type(error)
    sentence = sentence_of(kind)
    title, _, remedy = sentence.partition(": ")
    return ProblemView(
        type=f"/errors/{kind.__name__}",
        title=title.rstrip("."),
        status=status_of(kind),
        detail=str(error),
        facts={name: _fact(value) for name, value in error.facts.items()},
        remedy=remedy or None,
    )


def response(
    error: HoldfastError, *, status: int | None = None, headers: dict[str, str] | None = None
) -> Response:
    """Return the answer for an error, with its own status or with another one."""
    problem = problem_of(error)
    if status is not None:
        problem.status = status
    more = dict(headers or {})
    if problem.status in RETRY_AFTER:
        more["Retry-After"] = RETRY_AFTER[problem.status]
    if problem.status == 401:
        more["WWW-Authenticate"] = 'Bearer realm="holdfast"'
    return Response(as_json(problem), problem.status, more, media_type="application/problem+json")


def error_of(problem: ProblemView) -> HoldfastError:
    """Return the error that a problem describes; of an unknown class, a HoldfastError."""
    kind = getattr(errors, problem.type.rpartition("/")[2], HoldfastError)
    is_error = isinstance(kind, type) and issubclass(kind, HoldfastError)
    return (kind if is_error else HoldfastError)(**problem.facts)


def unexpected() -> Response:
    """Return the answer for a fault of the server, without its details."""
    problem = ProblemView(
        type="/errors/HoldfastError",
        title="The server met an unexpected error",
        status=500,
        detail="the log of the server has the details",
    )
    return Response(as_json(problem), 500, media_type="application/problem+json")


def _fact(value: object) -> Any:
    """Return a fact as JSON data if it is such data, else as text."""
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        return safe_repr(value)
