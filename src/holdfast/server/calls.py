"""``HttpCall``: one admitted request, decoded, on its way to a method of the engine."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from starlette.requests import Request

from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.async_run import AsyncRun
from holdfast.connect.faces import AsyncFaces
from holdfast.core.api_keys import Right
from holdfast.core.validation import checked_text
from holdfast.errors import BadRequest, RightMissing
from holdfast.server.auth import Identity
from holdfast.server.cursors import ListCursors
from holdfast.server.operation import HttpOperation, values_of
from holdfast.server.sse import EventHub, OpenStreams
from holdfast.server.starts import StartQueue

MOST_ITEMS = 500
"""The maximum number of items of a page."""
ITEMS = 50
"""The number of items of a page, unless the request says otherwise."""


class SharedState:
    """What all requests of an app share."""

    def __init__(self, faces: AsyncFaces) -> None:
        self.faces: AsyncFaces = faces
        self.hub: EventHub = EventHub(faces)
        self.streams: OpenStreams = OpenStreams()
        self.starts: StartQueue = StartQueue(faces)
        self.installation: str = ""
        """The id of the database, once it was read."""


class HttpCall:
    """An admitted request: its operation, its caller, and its arguments."""

    def __init__(
        self,
        operation: HttpOperation,
        request: Request,
        identity: Identity,
        engine: AsyncEngine,
        shared: SharedState,
    ) -> None:
        self.operation: HttpOperation = operation
        self.request: Request = request
        self.identity: Identity = identity
        self.engine: AsyncEngine = engine
        """The engine, bound to the namespace of the caller."""
        self.faces: AsyncFaces = shared.faces
        self.hub: EventHub = shared.hub
        self.streams: OpenStreams = shared.streams
        self.starts: StartQueue = shared.starts
        self.cursors: ListCursors = ListCursors(
            shared.installation, operation.name, identity.grant.namespace
        )
        self.path: dict[str, str] = {}
        self.arguments: dict[str, Any] = {}
        self.key: str | None = None
        """The header ``Idempotency-Key``."""
        self.first_at: int | None = None
        """When the first request with this key arrived, if that is stored."""

    @property
    def rights(self) -> frozenset[Right]:
        """The rights of the caller."""
        return self.identity.grant.rights

    def take(self, path: dict[str, str], parsed: msgspec.Struct) -> None:
        """Take the decoded parameters. Raises RightMissing, BadRequest."""
        self.path = path
        self.arguments = values_of(parsed, self.operation.parameters)
        self._take_page()
        self._act_as_caller()
        self._take_idempotency_key()

    def _take_page(self) -> None:
        """Replace the cursor by the place that it stands for. Raises BadCursor, BadRequest."""
        begin = self.operation.page_parameter
        if begin is None:
            return
        limit = self.arguments.setdefault("limit", ITEMS)
        if not 1 <= limit <= MOST_ITEMS:
            raise BadRequest(parameter="limit", why=f"it must be from 1 to {MOST_ITEMS}")
        cursor = self.arguments.pop("cursor", None)
        if cursor is not None:
            self.arguments[begin] = self.cursors.place(cursor)

    def _act_as_caller(self) -> None:
        """Record the action under the name of the caller. Only an admin may act for others, and the
        history says so. Raises RightMissing."""
        grant = self.identity.grant
        if "by" in self.operation.names and self.operation.name != NAMES_ANOTHER:
            named = self.arguments.get("by")
            if named is not None and named != grant.name:
                if Right.ADMIN not in self.rights:
                    raise RightMissing(right=Right.ADMIN.value, why="only an admin acts for others")
                self._note_admin(named, grant.name)
            else:
                self.arguments["by"] = grant.name
        if self.operation.name in ACTS_WITH_ROLES and Right.ADMIN not in self.rights:
            self.arguments["roles"] = list(grant.gate_roles)

    def _note_admin(self, named: str, admin: str) -> None:
        """Act for another person, and say who does, where the operation has a place for it."""
        note = f"recorded by {admin}"
        for name in ("feedback", "reason"):
            if name in self.operation.names:
                own = self.arguments.get(name)
                self.arguments[name] = note if own is None else f"{own} ({note})"
                return
        self.arguments["by"] = f"{named} ({note})"

    def _take_idempotency_key(self) -> None:
        """Pass the header ``Idempotency-Key`` on, bound to the caller: other callers may choose the
        same text. Raises BadRequest."""
        header = self.request.headers.get("idempotency-key")
        if header is None or not self.operation.changes:
            return
        if not header or len(header) > 200 or not header.isprintable():
            raise BadRequest(header="Idempotency-Key", why="it must have 1 to 200 characters")
        self.key = header
        name = self.operation.idempotent_by
        if name is not None and self.arguments.get(name) is None:
            # A token stands for the caller of a public operation, whose address may change.
            caller = "" if self.operation.public else f"{self.identity.id}:"
            self.arguments[name] = checked_text(name, f"{caller}{header}")
        name = self.operation.derived_id
        if name is not None and self.arguments.get(name) is None:
            self.arguments[name] = self.derived_id()

    def derived_id(self) -> str | None:
        """Return the id of what a request creates, derived from its Idempotency-Key, its caller and
        its address; None without the header."""
        if self.key is None:
            return None
        return f"{self.operation.name.rpartition('.')[2]}-{self.key_digest().hex()[:32]}"

    def key_digest(self) -> bytes:
        """Return the digest of the Idempotency-Key with its caller and its address."""
        source = (self.operation.name, *self.path.values(), self.identity.id, self.key or "")
        return hashlib.sha256("\0".join(source).encode()).digest()

    async def make(self) -> Any:
        """Make the call and return the answer of the method."""
        if self.operation.handler is not None:
            return await self.operation.handler(self)
        return await self.call_method()

    async def call_method(self) -> Any:
        """Call the method of the engine with the arguments of the request."""
        owner, _, verb = self.operation.name.rpartition(".")
        path = dict(self.path)
        target: Any
        if owner == "run":
            target = AsyncRun(self.engine._calls, path.pop("id"))
        elif owner == "lease":
            target = await self.engine.tasks.lease(path.pop("proof"))
        elif owner == "engine":
            target = self.engine
        else:
            target = getattr(self.engine, owner)
        arguments = {**path, **self.arguments, **self.operation.fixed}
        positional = self._positional(arguments)
        keywords: dict[str, Any] = next(
            (
                arguments.pop(item.name, {})
                for item in self.operation.parameters
                if item.is_keywords
            ),
            {},
        )
        return await getattr(target, verb)(*positional, **arguments, **keywords)

    def _positional(self, arguments: dict[str, Any]) -> list[Any]:
        """Take the arguments that are passed by position: a list of further arguments, and the
        ones before it."""
        names = [item.name for item in self.operation.parameters]
        rest = next((item.name for item in self.operation.parameters if item.is_rest), None)
        if rest is None:
            return []
        before = [arguments.pop(name) for name in names[: names.index(rest)]]
        return [*before, *arguments.pop(rest, [])]


NAMES_ANOTHER = "gates.link"
"""The operation whose ``by`` is not the caller: it makes a link for another person."""

ACTS_WITH_ROLES = frozenset({"gates.decide", "gates.approve", "gates.reject", "gates.delegate"})
"""The operations whose ``roles`` are those of the caller."""
