"""Operations on messages, and the effects by which a run subscribes and publishes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import msgspec

from holdfast.core.messages import MessageSubscription, lock_names
from holdfast.core.payload import Payload
from holdfast.core.runs import NewRun
from holdfast.store.database import Operation
from holdfast.store.effects import Effect, Phase


class StartOffer(msgspec.Struct):
    """A run that a broadcast starts, or a message that no run waits for. It was prepared before the
    transaction, with the version that new runs used then."""

    run: NewRun
    element: str


class Message(msgspec.Struct, kw_only=True):
    """A message to one receiver."""

    namespace: str
    id: str
    name: str
    key: str | None = None
    payload: bytes
    ttl: int = 0
    """Microseconds for which it is kept without a receiver."""
    is_unique: bool = False
    """Whether the sender chose the id, so that a repetition is recognised."""
    run_id: str | None = None
    element: str | None = None
    starts: Sequence[StartOffer] = ()

    @property
    def names(self) -> Sequence[str]:
        """The names to lock before any run."""
        return lock_names(self.namespace, self.name, self.key, sends=True)


class PublishMessage(Operation):
    """Deliver a message to one receiver, start a run with it, or keep it.

    Answers:
        Delivered     the outcome
    Raises:
        NoReceiver    nothing waits for it, and it has no time to live
        LaneDraining  the lane of the run that it would start accepts no new runs
    """

    message: Message

    @property
    def names(self) -> Sequence[str]:
        return self.message.names


class StartWithKept(Operation, kw_only=True):
    """Start a run with a message that was kept, unless it was received since.

    Answers:
        Delivered   the outcome; ``lost`` if it stays as it is
    """

    namespace: str
    id: str
    name: str
    key: str | None = None
    starts: Sequence[StartOffer] = ()

    @property
    def names(self) -> Sequence[str]:
        return lock_names(self.namespace, self.name, self.key, sends=True)


class ResealMessage(Operation):
    """Replace the stored payload of a message, unless it has changed since it was read.

    Answers:
        bool  whether it was replaced
    """

    namespace: str
    name: str
    id: str
    old: bytes
    new: bytes


class BroadcastPart(Operation, kw_only=True):
    """Deliver a broadcast to the next receivers that have waited for it since before ``at``; the
    first part also starts runs.

    Answers:
        BroadcastAnswer
    Raises:
        LaneDraining  the lane of a run that it would start accepts no new runs
    """

    may_refuse_late: ClassVar[bool] = True  # one of its runs may be started before another is

    namespace: str
    id: str
    name: str
    payload: bytes
    at: int
    after: tuple[str, str] = ("", "")
    limit: int = 500
    starts: Sequence[StartOffer] = ()


class BroadcastAnswer(msgspec.Struct):
    """The runs that were reached and started; ``last`` is the receiver to continue after, None at
    the end."""

    reached: list[str]
    started: list[str]
    last: tuple[str, str] | None = None


class InstructRun(Operation, kw_only=True):
    """Give an instruction to the run of a model. The run answers it after the commit that applies
    it.

    Answers:
        WaitDelivery  with the number under which the answer is found
    Raises:
        RunNotFound   there is no run of this id
        RunFinished   the run has ended
        RunChanged    the history has events after ``expect``
    """

    run_id: str
    payload: bytes
    by: str | None = None
    expect: int | None = None
    payloads: Sequence[Payload] = ()


class OpenSubscription(Effect):
    """Let a step of the run wait for a message or broadcast; a kept message is delivered at
    once."""

    phase: ClassVar[Phase] = Phase.OTHER_RUNS

    subscription: MessageSubscription

    @property
    def names(self) -> Sequence[str]:
        """The names to lock before any run."""
        subscription = self.subscription
        if subscription.kind != "message":
            return ()
        return lock_names(subscription.namespace, subscription.name, subscription.key, sends=False)


class CloseSubscription(Effect):
    """End the subscription of a step. A message that has reached the step meanwhile is offered to
    other receivers, or kept for a day."""

    phase: ClassVar[Phase] = Phase.OTHER_RUNS

    subscription: MessageSubscription

    @property
    def names(self) -> Sequence[str]:
        """The names to lock before any run."""
        subscription = self.subscription
        if subscription.kind != "message":
            return ()
        return lock_names(subscription.namespace, subscription.name, subscription.key, sends=True)


class SendMessage(Effect):
    """Publish a message with the commit of the run that sends it. Without a receiver and a time to
    live it is lost. A run that it would start in a draining lane refuses the commit."""

    phase: ClassVar[Phase] = Phase.OTHER_RUNS
    may_refuse_late: ClassVar[bool] = True

    message: Message

    @property
    def names(self) -> Sequence[str]:
        """The names to lock before any run."""
        return self.message.names


class SendBroadcast(Effect):
    """Deliver a broadcast with the commit of the run that sends it. A run that it would start in a
    draining lane refuses the commit."""

    phase: ClassVar[Phase] = Phase.OTHER_RUNS
    may_refuse_late: ClassVar[bool] = True

    part: BroadcastPart


class AnswerSignal(Effect):
    """Record the answer to an instruction, by the number of its signal."""

    number: int
    answer: str


class ChangeRunVersion(Effect):
    """Let the run continue with another version of its definition. Its open incidents and waits for
    messages show the elements that the other version has for their steps."""

    phase: ClassVar[Phase] = Phase.OWN_ROWS

    version: str
    places: Mapping[str, str] = {}
    """The elements that have another name there, by step."""
