"""The calls of an engine on gates: list, decide, delegate, links."""

from __future__ import annotations

from typing import Any

from holdfast.connect.calls import AsyncCalls, Calls
from holdfast.core.gates.model import Gate, GateEntry
from holdfast.core.tokens import Token
from holdfast.service import keys
from holdfast.service.gates import LINK_LIVES, GateService, Names, Which
from holdfast.service.runs import Moment


class Gates(Calls):
    """The calls of ``Engine`` on gates."""

    @property
    def _gate_service(self) -> GateService:
        return GateService(self._parts.client)

    def gates(self, **filters: Any) -> list[Gate]:
        """Return the gates that match, oldest first; without *status*, only open gates.

        Filters: status ("open", "approved", "rejected", "expired", "withdrawn", "closed", "any"),
        mine (a person: the gates that this person may decide and has not decided), role (one or
        several), run, workflow, namespace, overdue. ``after`` (the id of the last gate of the
        previous page) and ``limit`` select a page. Raises BadOption.
        """
        return self._gate_service.find(**filters)

    def gate(self, gate: Which) -> Gate:
        """Return a gate by its id, or the gate of a run. Raises GateNotFound."""
        return self._gate_service.get(gate)

    def gate_entries(self, gate: Which) -> list[GateEntry]:
        """Return the entries of a gate, in order: decisions, delegations, reminders. Raises
        GateNotFound."""
        return self._parts.store.gates.entries(self._gate_service.get(gate).id)

    def decide(
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
    ) -> Gate:
        """Record the decision of one person on a gate, and return the gate after it. *gate* is a
        gate, its id, or the id of a run with one open gate.

        *selections* are some of the gate's options, *form* is the completed form, *roles* are the
        roles of the person. With *expect*, the decision counts only if the gate's data still has
        that hash. Raises GateNotFound, GateClosed, NotYourGate, AlreadyDecided, GateChanged,
        UnknownChoice or WrongAnswer; then nothing is written.
        """
        updated: Gate = self._do(
            self._gate_service.decide(
                gate,
                choice,
                by=by,
                roles=roles,
                feedback=feedback,
                selections=selections,
                form=form,
                expect=expect,
            )
        )
        return updated

    def approve(
        self,
        gate: Which,
        *,
        by: str | None = None,
        roles: Names = (),
        feedback: str | None = None,
        selections: Names = (),
        form: Any = None,
        expect: str | None = None,
    ) -> Gate:
        """Decide a gate with the choice that approves. Raises the errors of ``decide``."""
        updated: Gate = self._do(
            self._gate_service.approve(
                gate,
                by=by,
                roles=roles,
                feedback=feedback,
                selections=selections,
                form=form,
                expect=expect,
            )
        )
        return updated

    def reject(
        self,
        gate: Which,
        *,
        by: str | None = None,
        roles: Names = (),
        feedback: str | None = None,
        selections: Names = (),
        form: Any = None,
        expect: str | None = None,
    ) -> Gate:
        """Decide a gate with the choice that rejects. Raises the errors of ``decide``."""
        updated: Gate = self._do(
            self._gate_service.reject(
                gate,
                by=by,
                roles=roles,
                feedback=feedback,
                selections=selections,
                form=form,
                expect=expect,
            )
        )
        return updated

    def delegate(
        self, gate: Which, to: str, *, by: str, roles: Names = (), reason: str | None = None
    ) -> Gate:
        """Let the person *to* decide in place of the person *by*, who must be allowed to decide.
        Raises GateClosed, NotYourGate, AlreadyDecided."""
        updated: Gate = self._do(
            self._gate_service.delegate(gate, to, by=by, roles=roles, reason=reason)
        )
        return updated

    def reassign(
        self,
        gate: Which,
        *,
        assignees: Names = (),
        roles: Names = (),
        by: str | None = None,
        reason: str | None = None,
    ) -> Gate:
        """Replace the people and roles that may decide a gate. Raises GateClosed, QuorumImpossible,
        and BadOption if none is named."""
        updated: Gate = self._do(
            self._gate_service.reassign(
                gate, assignees=assignees, roles=roles, by=by, reason=reason
            )
        )
        return updated

    def update_gate(
        self, gate: Which, data: Any, *, by: str | None = None, reason: str | None = None
    ) -> Gate:
        """Replace the data of a gate. Decisions made so far lapse, and people decide again. Raises
        GateClosed."""
        updated: Gate = self._do(self._gate_service.update(gate, data, by=by, reason=reason))
        return updated

    def withdraw(self, gate: Which, *, by: str | None = None, reason: str | None = None) -> Gate:
        """Close a gate without a decision; GateWithdrawn is raised in its workflow. Raises
        GateClosed."""
        updated: Gate = self._do(self._gate_service.withdraw(gate, by=by, reason=reason))
        return updated

    def gate_link(
        self, gate: Which, choice: str, *, by: str, roles: Names = (), expires: Moment = LINK_LIVES
    ) -> Token:
        """Return a signed token that answers the gate with one choice, once, as the person *by*,
        until it expires. Raises the errors of ``decide``, and BadOption if *expires* is past."""
        key = self._do(keys.need(self._parts.sealer))
        return self._gate_service.link(key, gate, choice, by=by, roles=roles, expires=expires)

    def answer(self, token: str, *, feedback: str | None = None) -> Gate:
        """Answer a gate with the token of a link. Raises TokenRefused, TokenExpired, and the errors
        of ``decide``."""
        updated: Gate = self._do(self._gate_service.answer(token, feedback))
        return updated


class AsyncGates(AsyncCalls):
    """The calls of ``AsyncEngine`` on gates."""

    async def gates(self, **filters: Any) -> list[Gate]:
        """Return the gates that match, oldest first; without *status*, only open gates.

        Filters: status ("open", "approved", "rejected", "expired", "withdrawn", "closed", "any"),
        mine (a person: the gates that this person may decide and has not decided), role (one or
        several), run, workflow, namespace, overdue. ``after`` (the id of the last gate of the
        previous page) and ``limit`` select a page. Raises BadOption.
        """
        engine = await self._opened()
        return await self._aside(engine.gates, **filters)

    async def gate(self, gate: Which) -> Gate:
        """Return a gate by its id, or the gate of a run. Raises GateNotFound."""
        return await self._call(Gates.gate, gate)

    async def gate_entries(self, gate: Which) -> list[GateEntry]:
        """Return the entries of a gate, in order: decisions, delegations, reminders. Raises
        GateNotFound."""
        return await self._call(Gates.gate_entries, gate)

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
    ) -> Gate:
        """Record the decision of one person on a gate, and return the gate after it. Options and
        errors are those of ``Engine.decide``."""
        return await self._call(
            Gates.decide,
            gate,
            choice,
            by=by,
            roles=roles,
            feedback=feedback,
            selections=selections,
            form=form,
            expect=expect,
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
    ) -> Gate:
        """Decide a gate with the choice that approves. Raises the errors of ``decide``."""
        return await self._call(
            Gates.approve,
            gate,
            by=by,
            roles=roles,
            feedback=feedback,
            selections=selections,
            form=form,
            expect=expect,
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
    ) -> Gate:
        """Decide a gate with the choice that rejects. Raises the errors of ``decide``."""
        return await self._call(
            Gates.reject,
            gate,
            by=by,
            roles=roles,
            feedback=feedback,
            selections=selections,
            form=form,
            expect=expect,
        )

    async def delegate(
        self, gate: Which, to: str, *, by: str, roles: Names = (), reason: str | None = None
    ) -> Gate:
        """Let the person *to* decide in place of the person *by*, who must be allowed to decide.
        Raises GateClosed, NotYourGate, AlreadyDecided."""
        return await self._call(Gates.delegate, gate, to, by=by, roles=roles, reason=reason)

    async def reassign(
        self,
        gate: Which,
        *,
        assignees: Names = (),
        roles: Names = (),
        by: str | None = None,
        reason: str | None = None,
    ) -> Gate:
        """Replace the people and roles that may decide a gate. Raises GateClosed, QuorumImpossible,
        and BadOption if none is named."""
        return await self._call(
            Gates.reassign, gate, assignees=assignees, roles=roles, by=by, reason=reason
        )

    async def update_gate(
        self, gate: Which, data: Any, *, by: str | None = None, reason: str | None = None
    ) -> Gate:
        """Replace the data of a gate. Decisions made so far lapse, and people decide again. Raises
        GateClosed."""
        return await self._call(Gates.update_gate, gate, data, by=by, reason=reason)

    async def withdraw(
        self, gate: Which, *, by: str | None = None, reason: str | None = None
    ) -> Gate:
        """Close a gate without a decision; GateWithdrawn is raised in its workflow. Raises
        GateClosed."""
        return await self._call(Gates.withdraw, gate, by=by, reason=reason)

    async def gate_link(
        self, gate: Which, choice: str, *, by: str, roles: Names = (), expires: Moment = LINK_LIVES
    ) -> Token:
        """Return a signed token that answers the gate with one choice, once, as the person *by*,
        until it expires. Raises the errors of ``decide``, and BadOption if *expires* is past."""
        return await self._call(Gates.gate_link, gate, choice, by=by, roles=roles, expires=expires)

    async def answer(self, token: str, *, feedback: str | None = None) -> Gate:
        """Answer a gate with the token of a link. Raises TokenRefused, TokenExpired, and the errors
        of ``decide``."""
        return await self._call(Gates.answer, token, feedback=feedback)
