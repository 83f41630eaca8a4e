"""``gate``: what a workflow says when it asks people, once for both colours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.authoring.replay.call import Call
from holdfast.authoring.replay.replay import ReplayProgram
from holdfast.core import duration, pydantic_models
from holdfast.core.codec import JsonCodec, fit
from holdfast.core.commands import OpenGate
from holdfast.core.duration import Duration
from holdfast.core.events import Event
from holdfast.core.gates.answer import Answer, DecidedBy, GateOutcome
from holdfast.core.gates.model import (
    APPROVE,
    CONTINUE,
    FAIL,
    REJECT,
    Escalation,
    Gate,
    GateTerms,
    Option,
)
from holdfast.core.gates.rules import check_quorum
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.core.validation import checked_many
from holdfast.errors import (
    BadOption,
    GateExpired,
    GateRejected,
    GateWithdrawn,
    HoldfastError,
    WrongAnswer,
    WrongType,
)

Options = Iterable[str | Mapping[str, Any]] | Mapping[str, str]
Names = str | Iterable[str]
JSON = JsonCodec()
"""What people are shown, and what they fill in, is JSON, whatever else is stored how."""

LONGEST = 1000
"""Characters of a name or of an option."""


MOST_PEOPLE = 1_000_000


def asking(
    program: ReplayProgram,
    prompt: str,
    *,
    options: Options | None,
    assignees: Names | None,
    roles: Names | None,
    quorum: int,
    exclude: Names | None,
    timeout: Duration | None,
    on_timeout: str,
    remind: Any,
    escalate: Any,
    form: Any,
    data: Any,
) -> Call:
    """Ask people for a decision."""
    if not isinstance(prompt, str) or not prompt.strip():
        raise BadOption(
            option="prompt", value=prompt, why="people must be told what they decide on"
        )
    if not is_storable(prompt):
        raise BadOption(
            option="prompt",
            value=prompt,
            why="it must be a text without NUL characters, and Unicode",
        )
    every, listed = _reminders(remind)
    terms = GateTerms(
        options=_options(options),
        quorum=_quorum(quorum),
        exclude=_names("exclude", exclude),
        on_timeout=on_timeout,
        remind=listed,
        remind_every=every,
        escalate=_escalations(escalate),
        form=None if form is None else _schema(form),
    )
    people, heads = _names("assignees", assignees), _names("roles", roles)
    if not people and not heads and (assignees is not None or roles is not None):
        option = "assignees" if assignees is not None else "roles"
        raise BadOption(
            option=option, value=[], why="nobody is named; leave it out if anybody may decide"
        )
    command = OpenGate(
        program.identify("gate"),
        plain_text(prompt),
        terms,
        people,
        heads,
        None if data is None else JSON.encode(data, what="data of the gate"),
        _length("timeout", timeout),
    )
    _check(command)
    return Call(command, lambda event: _understood(event, form))


def _check(command: OpenGate) -> None:
    gate = Gate(
        id="",
        run_id="",
        step=command.id,
        prompt=command.prompt,
        terms=command.terms,
        assignees=command.assignees,
        roles=command.roles,
    )
    check_quorum(gate)
    known = (FAIL, CONTINUE, *gate.choices)
    if not is_one_of(command.terms.on_timeout, known):
        raise BadOption(option="on_timeout", value=command.terms.on_timeout, known=", ".join(known))


def _understood(event: Event, form: Any) -> Answer:
    if event.error is not None:
        raise _failure(event.error)
    outcome = msgspec.json.decode(event.data or b"{}", type=GateOutcome)
    decisions = []
    for told in outcome.decisions:
        try:
            value = (
                told.value
                if form is None or told.value is None
                else fit(told.value, form, "the form")
            )
        except WrongType as error:  # the model asks for more than its schema can say
            raise WrongAnswer(
                gate=outcome.gate, by=told.by, why=str(error.facts.get("why", error))
            ) from error
        decisions.append(DecidedBy(told, value))
    return Answer(outcome, decisions)


_RAISED: dict[str, type[HoldfastError]] = {
    one.__name__: one for one in (GateExpired, GateRejected, GateWithdrawn)
}


def _failure(error: bytes) -> HoldfastError:
    told = msgspec.json.decode(error)
    return _RAISED.get(told.get("type"), GateWithdrawn)(**told.get("facts", {}))


# What was asked, checked


def _options(given: Options | None) -> tuple[Option, ...]:
    if given is None:
        return ()
    if isinstance(given, str):
        raise BadOption(option="options", value=given, why='give a list, such as ["yes", "no"]')
    if isinstance(given, Mapping):
        found = [
            Option(_text("options", value), _text("options", label))
            for value, label in given.items()
        ]
    else:
        found = [_option(one) for one in checked_many("options", given)]
    if not found:
        raise BadOption(option="options", why="there must be something to choose from")
    values = [option.value for option in found]
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        raise BadOption(option="options", value=twice[0], why="it is there twice")
    return tuple(found)


def _option(given: Any) -> Option:
    if isinstance(given, Option):
        return given
    if not isinstance(given, Mapping):
        return Option(_text("options", given))
    unknown = set(given) - {"value", "label", "means"}
    if unknown or not (given.get("means") is None or is_one_of(given["means"], (APPROVE, REJECT))):
        why = (
            'an option is a text, or has a "value", and may have a "label" and "means": "approve"'
            ' or "reject"'
        )
        raise BadOption(option="options", value=dict(given), why=why)
    label = given.get("label")
    return Option(
        _text("options", given.get("value")),
        None if label is None else _text("options", label),
        given.get("means"),
    )


def _text(option: str, value: Any) -> str:
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value) > LONGEST
        or not is_storable(value)
    ):
        raise BadOption(
            option=option, value=value, why=f"it must be a text of 1 to {LONGEST} characters"
        )
    return plain_text(value)


def _names(option: str, given: Names | None) -> tuple[str, ...]:
    if given is None:
        return ()
    names = [given] if isinstance(given, str) else checked_many(option, given)
    return tuple(dict.fromkeys(_text(option, name) for name in names))


def _quorum(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST_PEOPLE:
        raise BadOption(
            option="quorum", value=given, why=f"it is a number of people, from 1 to {MOST_PEOPLE}"
        )
    return given


def _length(option: str, given: Duration | None) -> int | None:
    found = None if given is None else duration.parse(given)
    if found is not None and found <= 0:
        raise BadOption(option=option, value=given, why="it must be longer than nothing")
    return found


def _reminders(given: Any) -> tuple[int | None, tuple[int, ...]]:
    """Read a length, for again and again, or a list of lengths since the opening."""
    if isinstance(given, list | tuple):
        return None, tuple(sorted({_length("remind", one) or 0 for one in given}))
    return _length("remind", given), ()


def _escalations(given: Any) -> tuple[Escalation, ...]:
    if given is None:
        return ()
    found = [_escalation(one) for one in (given if isinstance(given, list | tuple) else [given])]
    return tuple(sorted(found, key=lambda one: one.after))


def _escalation(given: Any) -> Escalation:
    why = (
        'say {"after": "1d", "assignees": [...], "roles": [...]}, with at least one of the last two'
    )
    if (
        not isinstance(given, Mapping)
        or set(given) - {"after", "assignees", "roles"}
        or "after" not in given
    ):
        raise BadOption(option="escalate", value=given, why=why)
    assignees, roles = (
        _names("assignees", given.get("assignees")),
        _names("roles", given.get("roles")),
    )
    if not assignees and not roles:
        raise BadOption(option="escalate", value=dict(given), why=why)
    return Escalation(_length("escalate", given["after"]) or 0, assignees, roles)


def _schema(form: Any) -> dict[str, Any]:
    """Return the JSON Schema of a model."""
    try:
        if pydantic_models.is_model(form):
            found: dict[str, Any] = form.model_json_schema()
            return found
        return msgspec.json.schema(form)
    except Exception as error:
        raise BadOption(
            option="form",
            value=getattr(form, "__name__", form),
            why=f"it has no JSON Schema: {error}",
        ) from None
