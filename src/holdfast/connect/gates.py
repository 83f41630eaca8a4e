"""Gates, as an engine is asked about them: the inbox, decisions, links."""

from __future__ import annotations

from typing import Any

from holdfast.connect.calls import AsyncCalls, Calls
from holdfast.core.gates.model import Gate, GateEntry
from holdfast.core.tokens import Token
from holdfast.service import keys
from holdfast.service.gates import LINK_LIVES, GateService, Names, Which
from holdfast.service.runs import Moment


class Gates(Calls):
    """Gates, for ``Engine``."""

    @property
    def _inbox(self) -> GateService:
        return GateService(self._parts.client)

    def gates(self, **filters: Any) -> list[Gate]:
        """Return the inbox: gates from old to new, those that are open unless told otherwise.

        Filters: status ("open", "approved", "rejected", "expired", "withdrawn", "closed", "any"),
        mine (a person: what they may decide and have not yet), role (one or several), run,
        workflow, namespace, overdue; ``after`` and ``limit`` page."""
        return self._inbox.find(**filters)

    def gate(self, gate: Which) -> Gate:
        """Return a gate. Raises GateNotFound."""
        return self._inbox.get(gate)

    def gate_entries(self, gate: Which) -> list[GateEntry]:
        """Return what was done to a gate, in order: decisions, delegations, reminders."""
        return self._parts.store.gate_entries(self._inbox.get(gate).id)

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
        """Decide a gate, as one person, and return it as it is then. *gate* is one, its id, or a
        run with one open gate.

        *selections* are some of its options, *form* is what was filled in, *roles* are those that
        the person has; with *expect* the decision counts only for the data with that hash. Raises
        GateNotFound, GateClosed, NotYourGate, AlreadyDecided, GateChanged, UnknownChoice or
        WrongAnswer; then nothing is written."""
        found: Gate = self._do(
            self._inbox.decide(
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
        return found

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
        """Choose what means yes on a gate. Raises what ``decide`` does."""
        found: Gate = self._do(
            self._inbox.approve(
                gate,
                by=by,
                roles=roles,
                feedback=feedback,
                selections=selections,
                form=form,
                expect=expect,
            )
        )
        return found

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
        """Choose what means no on a gate. Raises what ``decide`` does."""
        found: Gate = self._do(
            self._inbox.reject(
                gate,
                by=by,
                roles=roles,
                feedback=feedback,
                selections=selections,
                form=form,
                expect=expect,
            )
        )
        return found

    def delegate(
        self, gate: Which, to: str, *, by: str, roles: Names = (), reason: str | None = None
    ) -> Gate:
        """Let *to* decide in the place of *by*, who may. Raises GateClosed, NotYourGate,
        AlreadyDecided."""
        found: Gate = self._do(self._inbox.delegate(gate, to, by=by, roles=roles, reason=reason))
        return found

    def reassign(
        self,
        gate: Which,
        *,
        assignees: Names = (),
        roles: Names = (),
        by: str | None = None,
        reason: str | None = None,
    ) -> Gate:
        """Name others who may decide, in place of those who could. Raises GateClosed,
        QuorumImpossible."""
        found: Gate = self._do(
            self._inbox.reassign(gate, assignees=assignees, roles=roles, by=by, reason=reason)
        )
        return found

    def update_gate(
        self, gate: Which, data: Any, *, by: str | None = None, reason: str | None = None
    ) -> Gate:
        """Change what a gate is about: decisions made so far lapse, and people decide again. Raises
        GateClosed."""
        found: Gate = self._do(self._inbox.update(gate, data, by=by, reason=reason))
        return found

    def withdraw(self, gate: Which, *, by: str | None = None, reason: str | None = None) -> Gate:
        """Close a gate undecided; its workflow sees GateWithdrawn. Raises GateClosed."""
        found: Gate = self._do(self._inbox.withdraw(gate, by=by, reason=reason))
        return found

    def gate_link(
        self, gate: Which, choice: str, *, by: str, roles: Names = (), expires: Moment = LINK_LIVES
    ) -> Token:
        """Return a signed token with which *by* answers the gate in one way, once, until it
        expires."""
        key = self._do(keys.need(self._parts.sealer))
        return self._inbox.link(key, gate, choice, by=by, roles=roles, expires=expires)

    def answer(self, token: str, *, feedback: str | None = None) -> Gate:
        """Answer a gate as the token of a link says. Raises TokenRefused, TokenExpired, and what
        ``decide`` does."""
        found: Gate = self._do(self._inbox.answer(token, feedback))
        return found


class AsyncGates(AsyncCalls):
    """Gates, for ``AsyncEngine``."""

    async def gates(self, **filters: Any) -> list[Gate]:
        """Return the inbox: gates from old to new, those that are open unless told otherwise.

        Filters: status ("open", "approved", "rejected", "expired", "withdrawn", "closed", "any"),
        mine (a person: what they may decide and have not yet), role (one or several), run,
        workflow, namespace, overdue; ``after`` and ``limit`` page."""
        engine = await self._opened()
        return await self._aside(engine.gates, **filters)

    async def gate(self, gate: Which) -> Gate:
        """Return a gate. Raises GateNotFound."""
        return await self._call(Gates.gate, gate)

    async def gate_entries(self, gate: Which) -> list[GateEntry]:
        """Return what was done to a gate, in order: decisions, delegations, reminders."""
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
        """Decide a gate, as one person, and return it as it is then. The options are those of
        ``Engine.decide``."""
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
        """Choose what means yes on a gate. Raises what ``decide`` does."""
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
        """Choose what means no on a gate. Raises what ``decide`` does."""
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
        """Let *to* decide in the place of *by*, who may. Raises GateClosed, NotYourGate,
        AlreadyDecided."""
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
        """Name others who may decide, in place of those who could. Raises GateClosed,
        QuorumImpossible."""
        return await self._call(
            Gates.reassign, gate, assignees=assignees, roles=roles, by=by, reason=reason
        )

    async def update_gate(
        self, gate: Which, data: Any, *, by: str | None = None, reason: str | None = None
    ) -> Gate:
        """Change what a gate is about: decisions made so far lapse, and people decide again. Raises
        GateClosed."""
        return await self._call(Gates.update_gate, gate, data, by=by, reason=reason)

    async def withdraw(
        self, gate: Which, *, by: str | None = None, reason: str | None = None
    ) -> Gate:
        """Close a gate undecided; its workflow sees GateWithdrawn. Raises GateClosed."""
        return await self._call(Gates.withdraw, gate, by=by, reason=reason)

    async def gate_link(
        self, gate: Which, choice: str, *, by: str, roles: Names = (), expires: Moment = LINK_LIVES
    ) -> Token:
        """Return a signed token with which *by* answers the gate in one way, once, until it
        expires."""
        return await self._call(Gates.gate_link, gate, choice, by=by, roles=roles, expires=expires)

    async def answer(self, token: str, *, feedback: str | None = None) -> Gate:
        """Answer a gate as the token of a link says. Raises TokenRefused, TokenExpired, and what
        ``decide`` does."""
        return await self._call(Gates.answer, token, feedback=feedback)
