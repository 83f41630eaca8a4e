"""Turn the answers of methods into JSON, and describe their types for OpenAPI."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar, get_origin

import msgspec

from holdfast.connect.async_run import AsyncRun
from holdfast.connect.graphs import AsyncGraphRun
from holdfast.connect.tasks import AsyncCreated, AsyncDuplicate
from holdfast.core.status import Status
from holdfast.server.cursors import ListCursors
from holdfast.server.operation import HttpOperation, scalar_field
from holdfast.server.wire import item_type
from holdfast.service.tasks.lease_state import Retried, RunEnded
from holdfast.views.pages import Page

T = TypeVar("T")


class ItemPage(msgspec.Struct, Generic[T]):
    """A page of a list. ``next`` is the cursor of the next page; None if there is none."""

    items: list[T]
    next: str | None = None


class StartedView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A started run."""

    id: str
    created: bool | None = None


class StartedGraphView(msgspec.Struct, kw_only=True):
    """A started graph."""

    id: str
    revision: int


class AttemptOutcomeView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The outcome of a failed attempt: when the run is attempted again, or its final status."""

    at: datetime | None = None
    status: Status | None = None


def plain(answer: Any) -> Any:
    """Return a handle to a run or a graph as the view that names it; other answers as they are."""
    if isinstance(answer, AsyncRun):
        return StartedView(id=answer.id)
    if isinstance(answer, AsyncGraphRun):
        return StartedGraphView(id=answer.id, revision=answer.revision)
    if isinstance(answer, AsyncCreated | AsyncDuplicate):
        return StartedView(id=answer.run.id, created=answer.created)
    if isinstance(answer, Retried):
        return AttemptOutcomeView(at=answer.at)
    return answer


def page_of(operation: HttpOperation, answer: Any, limit: int | None, cursors: ListCursors) -> Any:
    """Return a list as a page. A full page has a cursor, even if nothing may follow."""
    items = [plain(item) for item in answer]
    place = answer.next if isinstance(answer, Page) else None
    if not isinstance(answer, Page) and operation.page_parameter and len(items) == limit:
        place = str(getattr(items[-1], operation.cursor))
    return ItemPage(items, None if place is None else cursors.text(place))


def body_of(operation: HttpOperation, answer: Any) -> Any:
    """Return the body of an answer that is not a list."""
    value = plain(answer)
    if isinstance(value, msgspec.Struct):
        return value
    return {scalar_field(operation): value}


def answer_type(operation: HttpOperation) -> Any:
    """Return the type of the body of an answer, for OpenAPI; None if there is no body."""
    returns = operation.returns
    if returns is type(None):
        return None
    item = item_type(returns)
    if item is not None:
        return ItemPage[_plain_type(item)]  # type: ignore[misc]
    origin = get_origin(returns)
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        return returns
    value = _plain_type(returns)
    if isinstance(value, type) and issubclass(value, msgspec.Struct):
        return value
    name = "".join(word.capitalize() for word in operation.name.replace("_", ".").split("."))
    return msgspec.defstruct(f"{name}Answer", [(scalar_field(operation), value)])


def _plain_type(hint: Any) -> Any:
    origin = getattr(hint, "__origin__", hint)
    if origin is AsyncRun or hint == AsyncCreated | AsyncDuplicate:
        return StartedView
    if hint == Retried | RunEnded:
        return AttemptOutcomeView
    if hint is AsyncGraphRun:
        return StartedGraphView
    if isinstance(hint, type) and issubclass(hint, str) and not hasattr(hint, "__members__"):
        return str
    return hint
