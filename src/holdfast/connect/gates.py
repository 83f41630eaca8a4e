"""``engine.gates``: list gates, decide and delegate them, and answer them by a link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.connect.async_calls import AsyncCalls
from holdfast.connect.components import Components
from holdfast.core.gates.model import Gate, GateStatus
from holdfast.core.tokens import Token
from holdfast.service import keys
from holdfast.service.gates import LINK_LIVES, Names
from holdfast.service.instants import Moment
from holdfast.service.requests import Request
from holdfast.views import gates as views
from holdfast.views.gates import GateEntryView, GateView

Which = GateView | str
"""A gate, its id, or the id of a run that has one open gate."""


class AsyncGates:
    """The gates of an ``AsyncEngine``."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    async def list(
        self,
        *,
        status: Names = GateStatus.OPEN.value,
        mine: str | None = None,
        role: Names = (),
        run: str | None = None,
        workflow: str | None = None,
        namespace: str | None = None,
        overdue: bool = False,
        after: str | None = None,
        limit: int = 100,
    ) -> list[GateView]:
        """Return the gates that match, oldest first; without *status*, only open gates.

        *status* is one or several of "open", "approved", "rejected", "expired", "withdrawn",
        "closed" and "any". *mine* is a person: return the gates that this person may decide and has
        not decided. *role* is one role or several. ``after`` (the id of the last gate of the
        previous page) and ``limit`` select a page. Raises BadOption.
        """

        def read(parts: Components) -> list[GateView]:
            page = parts.gates.find(
                status=status,
                mine=mine,
                role=role,
                run=run,
                workflow=workflow,
                namespace=namespace,
                overdue=overdue,
                after=after,
                limit=limit,
            )
            entries = parts.store.gates.entries_of(gate.id for gate in page)
            return [views.of(gate, entries.get(gate.id, [])) for gate in page]

        return await self._calls.call(read)

    async def get(self, gate: Which) -> GateView:
        """Return a gate by its id, or the gate of a run. Raises GateNotFound."""
        return await self._calls.call(lambda parts: _view(parts, parts.gates.get(_id(gate))))

    async def entries(self, gate: Which) -> Sequence[GateEntryView]:
        """Return the entries of a gate, in order: decisions, delegations, reminders. Raises
        GateNotFound."""

        def read(parts: Components) -> list[GateEntryView]:
            entries = parts.store.gates.entries(parts.gates.get(_id(gate)).id)
            return [views.entry_of(entry) for entry in entries]

        return await self._calls.call(read)

    async def decide(
        self,
        gate: Which,
        choice: str,
        *,
        by: str | None = None,
        roles: Names = (),
        feedback: str | None = None,
        selections: Names = (),
        form: Any = None,
        expect: str | None = None,
    ) -> GateView:
        """Record the decision of one person on a gate, and return the gate after it. *gate* is a
        gate, its id, or the id of a run with one open gate.

        *selections* are some of the gate's options, *form* is the completed form, *roles* are the
        roles of the person. With *expect*, the decision counts only if the gate's data still has
        that hash. Raises GateNotFound, GateClosed, NotYourGate, AlreadyDecided, GateChanged,
        UnknownChoice or WrongAnswer; then nothing is written.
        """
        return await self._committed(
            lambda parts: parts.gates.decide(
                _id(gate),
                choice,
                by=by,
                roles=roles,
                feedback=feedback,
                selections=selections,
                form=form,
                expect=expect,
            )
        )

    async def approve(
        self,
        gate: Which,
        *,
        by: str | None = None,
        roles: Names = (),
        feedback: str | None = None,
        selections: Names = (),
        form: Any = None,
        expect: str | None = None,
    ) -> GateView:
        """Decide a gate with the choice that approves. Raises the errors of ``decide``."""
        return await self._committed(
            lambda parts: parts.gates.approve(
                _id(gate),
                by=by,
                roles=roles,
                feedback=feedback,
                selections=selections,
                form=form,
                expect=expect,
            )
        )

    async def reject(
        self,
        gate: Which,
        *,
        by: str | None = None,
        roles: Names = (),
        feedback: str | None = None,
        selections: Names = (),
        form: Any = None,
        expect: str | None = None,
    ) -> GateView:
        """Decide a gate with the choice that rejects. Raises the errors of ``decide``."""
        return await self._committed(
            lambda parts: parts.gates.reject(
                _id(gate),
                by=by,
                roles=roles,
                feedback=feedback,
                selections=selections,
                form=form,
                expect=expect,
            )
        )

    async def delegate(
        self, gate: Which, to: str, *, by: str, roles: Names = (), reason: str | None = None
    ) -> GateView:
        """Let the person *to* decide in place of the person *by*, who must be allowed to decide.
        Raises GateClosed, NotYourGate, AlreadyDecided."""
        return await self._committed(
            lambda parts: parts.gates.delegate(_id(gate), to, by=by, roles=roles, reason=reason)
        )

    async def reassign(
        self,
        gate: Which,
        *,
        assignees: Names = (),
        roles: Names = (),
        by: str | None = None,
        reason: str | None = None,
    ) -> GateView:
        """Replace the people and roles that may decide a gate. Raises GateClosed, QuorumImpossible,
        and BadOption if none is named."""
        return await self._committed(
            lambda parts: parts.gates.reassign(
                _id(gate), assignees=assignees, roles=roles, by=by, reason=reason
            )
        )

    async def update(
        self, gate: Which, data: Any, *, by: str | None = None, reason: str | None = None
    ) -> GateView:
        """Replace the data of a gate. Decisions made so far lapse, and people decide again. Raises
        GateClosed."""
        return await self._committed(
            lambda parts: parts.gates.update(_id(gate), data, by=by, reason=reason)
        )

    async def withdraw(
        self, gate: Which, *, by: str | None = None, reason: str | None = None
    ) -> GateView:
        """Close a gate without a decision; GateWithdrawn is raised in its workflow. Raises
        GateClosed."""
        return await self._committed(
            lambda parts: parts.gates.withdraw(_id(gate), by=by, reason=reason)
        )

    async def link(
        self, gate: Which, choice: str, *, by: str, roles: Names = (), expires: Moment = LINK_LIVES
    ) -> Token:
        """Return a signed token that answers the gate with one choice, once, as the person *by*,
        until it expires. Raises the errors of ``decide``, and BadOption if *expires* is past."""

        def sign(parts: Components) -> Token:
            key = parts.commit(keys.need(parts.sealer))
            return parts.gates.link(key, _id(gate), choice, by=by, roles=roles, expires=expires)

        return await self._calls.call(sign)

    async def answer(self, token: str, *, feedback: str | None = None) -> GateView:
        """Answer a gate with the token of a link. Raises TokenRefused, TokenExpired, and the errors
        of ``decide``."""
        return await self._committed(lambda parts: parts.gates.answer(token, feedback))

    async def _committed(self, make_request: Callable[[Components], Request[Gate]]) -> GateView:
        """Commit a change of a gate, and return the gate after it."""
        return await self._calls.call(lambda parts: _view(parts, parts.commit(make_request(parts))))


def _id(gate: Which) -> str:
    return gate.id if isinstance(gate, GateView) else gate


def _view(parts: Components, gate: Gate) -> GateView:
    return views.of(gate, parts.store.gates.entries(gate.id))
