"""Requests about messages, broadcasts, instructions and incidents of the runs of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from holdfast import errors
from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.core.events import Event, EventKind
from holdfast.core.messages import Delivered, MessageKind
from holdfast.core.validation import checked_count, checked_string, checked_text
from holdfast.core.waits import INCIDENT, WaitCursor, WaitRecord
from holdfast.engine.runtime.ids import new_id
from holdfast.engine.runtime.start_offers import start_offers
from holdfast.errors import BadOption, HoldfastError, NotThere
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.service.variables import check_variables
from holdfast.store.messages.operations import (
    BroadcastAnswer,
    BroadcastPart,
    InstructRun,
    Message,
    PublishMessage,
)
from holdfast.store.signals.operations import WaitDelivery
from holdfast.store.waits.operations import ReleaseWait
from holdfast.store.waits.queries import FIRST, cursor_of


class Incident(NamedTuple):
    """A wait for an operator, and the event that raised it, opened."""

    wait: WaitRecord
    event: Event


class MessageService:
    """Builds the operations on messages, instructions and incidents, and reads them."""

    def __init__(self, client: RunService) -> None:
        self._client: RunService = client

    # Messages

    def message(
        self,
        name: str,
        variables: Any,
        *,
        key: str | None,
        id: str | None,
        ttl: Duration | None,
        run: str | None,
        element: str | None,
    ) -> Request[Delivered]:
        """Send a message to one receiver. Raises NoReceiver, NotEncodable, BadOption, BadDuration,
        RunNotFound."""
        if ttl is not None and (run is not None or element is not None):
            why = "a message to a run or an element is not kept: leave out ttl"
            raise BadOption(option="ttl", value=ttl, why=why)
        chosen = checked_text("id", id)
        payload = self.encoded(variables)
        namespace = self._client.namespace
        message = Message(
            namespace=namespace,
            id=chosen or new_id(),
            name=_checked_name(name),
            key=checked_text("key", key),
            payload=payload,
            ttl=0 if ttl is None else duration.parse(ttl),
            is_unique=chosen is not None,
            run_id=None if run is None else self._client.get(run).id,
            element=checked_text("element", element),
        )
        message.starts = start_offers(
            self._client.store, namespace, MessageKind.MESSAGE, message.name, payload
        )
        return Request(PublishMessage(message), identity)

    def broadcast(
        self, name: str, variables: Any, id: str | None = None, at: int | None = None
    ) -> BroadcastPart:
        """Return the first part of a broadcast; *id* and *at* are those of its first attempt.
        Raises NotEncodable, BadOption."""
        payload = self.encoded(variables)
        namespace = self._client.namespace
        checked = _checked_name(name)
        return BroadcastPart(
            namespace=namespace,
            id=id or new_id(),
            name=checked,
            payload=payload,
            at=self._client.store.now() if at is None else at,
            starts=start_offers(
                self._client.store, namespace, MessageKind.SIGNAL, checked, payload, id
            ),
        )

    def encoded(self, variables: Any) -> bytes:
        """Return variables as they are stored. Raises BadOption, NotEncodable."""
        if variables is None:
            return b"{}"
        check_variables(variables)
        return self._client.codec.encode(dict(variables), label="the variables")

    # Instructions

    def instruct(
        self,
        run_id: str,
        verb: str,
        facts: Mapping[str, Any],
        by: str | None,
        expect: int | None = None,
    ) -> Request[WaitDelivery]:
        """Give an instruction to the run of a model. Raises RunNotFound, RunFinished, RunChanged,
        NotThere, NotEncodable, BadOption."""
        run = self._client.get(run_id)
        store = self._client.store
        if not store.definitions.of_route(run.namespace, run.workflow, run.version):
            raise NotThere(run=run.id, why="this is not the run of a model")
        payload = self._client.codec.encode({"verb": verb, **facts}, label="the instruction")
        op = InstructRun(
            run_id=run.id,
            payload=payload,
            by=checked_text("by", by),
            expect=None if expect is None else checked_count("expect", expect),
        )
        return Request(op, identity)

    def answer(self, run_id: str, number: int) -> tuple[bool, Any]:
        """Return whether an instruction was answered, and the answer. Raises the error with which
        it was refused, and RunFinished if the run has ended without an answer."""
        messages = self._client.store.messages
        is_taken, effect = messages.answer(run_id, number)
        run = None if is_taken else self._client.get(run_id)
        if run is not None and run.finished_at is not None:
            # the run may have taken the instruction and ended between the two reads
            is_taken, effect = messages.answer(run_id, number)
            if not is_taken:
                raise errors.RunFinished(run=run_id, status=run.status.value)
        if not is_taken or effect is None or not effect.startswith("{"):
            return is_taken, None
        answer = msgspec.json.decode(effect)
        refusal = answer.get("error")
        if refusal is not None:
            raise _error_of(refusal)
        return True, answer.get("answer")

    # Incidents

    def incidents(self, run: str | None, after: str | None, limit: int) -> list[Incident]:
        """Return a page of the open incidents, of a run or of all runs; *after* is the id of the
        last incident of the page before. Raises RunNotFound, NotThere, BadOption."""
        run_id = None if run is None else self._client.get(run).id
        chosen = checked_string("after", after)
        waits = self._client.store.waits.incidents(
            run_id,
            after=FIRST if chosen is None else self._place(chosen),
            limit=checked_count("limit", limit),
            namespace=self._client.only,
        )
        raised = self._raised(waits)
        return [
            Incident(wait, raised[wait.run_id, wait.step])
            for wait in waits
            if (wait.run_id, wait.step) in raised
        ]

    def _place(self, incident: str) -> WaitCursor:
        """Return the place of an incident in the list, also after it was resolved. Raises
        NotThere."""
        step, _, run_id = incident.rpartition("@")
        wait = self._client.store.waits.of_step(run_id, step)
        if wait is None or wait.name != INCIDENT or not self._client.may_access(run_id):
            raise NotThere(incident=incident, why="there is no such incident")
        return cursor_of(wait, escalated=True)

    def _raised(self, waits: Sequence[WaitRecord]) -> dict[tuple[str, str], Event]:
        """Return the last event that raised each incident, opened, by run and step."""
        wanted = {(wait.run_id, wait.step) for wait in waits}
        raised: dict[tuple[str, str], Event] = {}
        for run_id in dict.fromkeys(wait.run_id for wait in waits):
            events = self._client.store.runs.events_of_kind(run_id, EventKind.INCIDENT_RAISED)
            last = {event.step: event for event in events if (run_id, event.step) in wanted}
            for event in self._client.sealer.opener.events(run_id, list(last.values())):
                raised[run_id, event.step or ""] = event
        return raised

    def resolve(
        self, incident: str, action: str, variables: Any, by: str | None
    ) -> Request[WaitDelivery]:
        """Resolve an incident. Raises NotThere, RunNotFound, RunFinished, NotEncodable,
        BadOption."""
        resolution = {
            "action": action,
            "variables": msgspec.Raw(self.encoded(variables)),
            "by": checked_text("by", by),
        }
        step, _, run_id = (checked_string("incident", incident) or "").rpartition("@")
        if not step:
            raise NotThere(incident=incident, why="this is not the id of an incident")
        run = self._client.get(run_id)
        wait = self._client.store.waits.of_step(run.id, step)
        if wait is None or wait.name != INCIDENT or wait.closed_at is not None:
            raise NotThere(incident=incident, why="the incident is not open")
        payload = msgspec.json.encode(resolution)
        return Request(ReleaseWait(run_id=run.id, step=step, payload=payload, by=by), identity)


def id_of(incident: Incident) -> str:
    """Return the id under which an incident is resolved."""
    return f"{incident.wait.step}@{incident.wait.run_id}"


def next_part(part: BroadcastPart, answer: BroadcastAnswer) -> BroadcastPart | None:
    """Return the part of a broadcast that follows; None at the end."""
    if answer.last is None:
        return None
    return msgspec.structs.replace(part, after=answer.last, starts=())


def _checked_name(name: str) -> str:
    checked = checked_text("name", name)
    if not checked:
        raise BadOption(option="name", value=name, why="give the name of a message")
    return checked


def _error_of(refusal: Mapping[str, Any]) -> HoldfastError:
    """Return the error by which a program refused an instruction."""
    kind = getattr(errors, str(refusal.get("type")), NotThere)
    facts = refusal.get("facts") or {}
    if not (isinstance(kind, type) and issubclass(kind, HoldfastError)):
        kind = NotThere
    return kind(**facts)
