"""``gate``: validate the options of a gate, and decode its decision.

The code is shared by ``async def`` and ``def`` workflows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.authoring.replay.call import Call
from holdfast.authoring.replay.replay import ReplayProgram
from holdfast.core import duration, pydantic_models, typed_json
from holdfast.core.codec import JsonCodec, fit
from holdfast.core.commands import OpenGate
from holdfast.core.duration import Duration
from holdfast.core.events import Event
from holdfast.core.gates import forms
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
from holdfast.core.validation import checked_many, checked_one_or_many
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
"""The codec of gate data and forms: people read and fill in JSON, whatever codec the engine has."""

LONGEST = 1000
"""The largest number of characters of a name or of an option."""


MOST_PEOPLE = 1_000_000


def gate_call(
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
    """Return the call that opens a gate and waits for its decision. It decodes to an Answer.

    Raises BadOption, QuorumImpossible; the decoder raises GateExpired, GateRejected,
    GateWithdrawn, WrongAnswer.
    """
    prompt = _checked_prompt(prompt)
    remind_every, remind_after = _reminders(remind)
    terms = GateTerms(
        options=_options(options),
        quorum=_quorum(quorum),
        exclude=_names("exclude", exclude),
        on_timeout=on_timeout,
        remind=remind_after,
        remind_every=remind_every,
        escalate=_escalations(escalate),
        form=_checked_schema(form),
    )
    people = _names("assignees", assignees)
    people_roles = _names("roles", roles)
    if not people and not people_roles and (assignees is not None or roles is not None):
        option = "assignees" if assignees is not None else "roles"
        raise BadOption(
            option=option,
            value=[],
            why="the list is empty: leave the option out if any person may decide",
        )
    command = OpenGate(
        program.identify("gate"),
        prompt,
        terms,
        people,
        people_roles,
        None if data is None else JSON.encode(data, label="data of the gate"),
        _positive_duration("timeout", timeout),
    )
    _check(command)
    return Call(command, lambda event: _decode_answer(event, form))


def _checked_prompt(prompt: Any) -> str:
    if not isinstance(prompt, str) or not prompt.strip():
        raise BadOption(
            option="prompt", value=prompt, why="the prompt must tell people what they decide on"
        )
    if not is_storable(prompt):
        raise BadOption(
            option="prompt",
            value=prompt,
            why="the prompt must be valid Unicode without NUL characters",
        )
    return plain_text(prompt)


def _check(command: OpenGate) -> None:
    """Raise QuorumImpossible if too few people may decide, and BadOption if ``on_timeout`` is
    neither "fail" nor "continue" nor a choice of the gate."""
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


def _decode_answer(event: Event, form: Any) -> Answer:
    """Return the decision of a gate, its values as *form*.

    Raises the error of a gate without a decision, and WrongAnswer for a value that is not a *form*.
    """
    if event.error is not None:
        raise _gate_error(event.error)
    outcome = typed_json.decode(event.data or b"{}", GateOutcome)
    decisions = []
    for decision in outcome.decisions:
        value = decision.value
        if form is not None and value is not None:
            try:
                value = fit(value, form, "the form")
            except WrongType as error:  # the model demands more than its JSON Schema can express
                why = str(error.facts.get("why", error))
                raise WrongAnswer(gate=outcome.gate, by=decision.by, why=why) from error
        decisions.append(DecidedBy(decision, value))
    return Answer(outcome, decisions)


_ERRORS: dict[str, type[HoldfastError]] = {
    error.__name__: error for error in (GateExpired, GateRejected, GateWithdrawn)
}


def _gate_error(data: bytes) -> HoldfastError:
    """Return the recorded error of a gate; an unknown type becomes GateWithdrawn."""
    recorded = msgspec.json.decode(data)
    return _ERRORS.get(recorded.get("type"), GateWithdrawn)(**recorded.get("facts", {}))


# Validation of options


def _options(options: Options | None) -> tuple[Option, ...]:
    if options is None:
        return ()
    if isinstance(options, str):
        raise BadOption(option="options", value=options, why='give a list, such as ["yes", "no"]')
    if isinstance(options, Mapping):
        parsed = [
            Option(_text("options", value), _text("options", label))
            for value, label in options.items()
        ]
    else:
        parsed = [_option(option) for option in checked_many("options", options)]
    if not parsed:
        raise BadOption(option="options", why="give at least one option to choose from")
    values = [option.value for option in parsed]
    duplicates = [value for value in values if values.count(value) > 1]
    if duplicates:
        raise BadOption(option="options", value=duplicates[0], why="the option is given twice")
    return tuple(parsed)


def _option(option: Any) -> Option:
    if isinstance(option, Option):
        return option
    if not isinstance(option, Mapping):
        return Option(_text("options", option))
    unknown = set(option) - {"value", "label", "means"}
    means = option.get("means")
    if unknown or not (means is None or is_one_of(means, (APPROVE, REJECT))):
        why = (
            'an option is a text, or has a "value", and may have a "label" and "means": "approve"'
            ' or "reject"'
        )
        raise BadOption(option="options", value=dict(option), why=why)
    label = option.get("label")
    return Option(
        _text("options", option.get("value")),
        None if label is None else _text("options", label),
        means,
    )


def _text(option: str, value: Any) -> str:
    if (
        not isinstance(value, str)
        or not value.strip()
        or len(value) > LONGEST
        or not is_storable(value)
    ):
        raise BadOption(
            option=option,
            value=value,
            why=f"the value must be a text of 1 to {LONGEST} characters",
        )
    return plain_text(value)


def _names(option: str, names: Names | None) -> tuple[str, ...]:
    """Return the names without duplicates, in order; one name may be given as a string."""
    if names is None:
        return ()
    listed = checked_one_or_many(option, names)
    return tuple(dict.fromkeys(_text(option, name) for name in listed))


def _quorum(quorum: Any) -> int:
    if isinstance(quorum, bool) or not isinstance(quorum, int) or not 1 <= quorum <= MOST_PEOPLE:
        raise BadOption(
            option="quorum",
            value=quorum,
            why=f"the quorum must be a number of people, from 1 to {MOST_PEOPLE}",
        )
    return quorum


def _positive_duration(option: str, length: Duration | None) -> int | None:
    """Return a duration in microseconds. Raises BadOption unless it is positive."""
    microseconds = duration.parse_optional(length)
    if microseconds is not None and microseconds <= 0:
        raise BadOption(option=option, value=length, why="the duration must be positive")
    return microseconds


def _reminders(remind: Any) -> tuple[int | None, tuple[int, ...]]:
    """Return the interval of repeated reminders, or the times of single ones, in microseconds.

    *remind* is a duration for the interval, or a list of durations since the opening of the gate.
    """
    if isinstance(remind, list | tuple):
        return None, tuple(sorted({_positive_duration("remind", after) or 0 for after in remind}))
    return _positive_duration("remind", remind), ()


def _escalations(escalate: Any) -> tuple[Escalation, ...]:
    """Return the escalations in the order of their times; a single one needs no list."""
    if escalate is None:
        return ()
    listed = escalate if isinstance(escalate, list | tuple) else [escalate]
    escalations = [_escalation(escalation) for escalation in listed]
    return tuple(sorted(escalations, key=lambda escalation: escalation.after))


def _escalation(escalation: Any) -> Escalation:
    why = (
        'give {"after": "1d", "assignees": [...], "roles": [...]}, with at least one of the last'
        " two"
    )
    if (
        not isinstance(escalation, Mapping)
        or set(escalation) - {"after", "assignees", "roles"}
        or "after" not in escalation
    ):
        raise BadOption(option="escalate", value=escalation, why=why)
    assignees = _names("assignees", escalation.get("assignees"))
    roles = _names("roles", escalation.get("roles"))
    if not assignees and not roles:
        raise BadOption(option="escalate", value=dict(escalation), why=why)
    return Escalation(_positive_duration("escalate", escalation["after"]) or 0, assignees, roles)


def _checked_schema(form: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of a form. Raises BadOption if it has a rule that would not be checked
    when a person fills the form in."""
    if form is None:
        return None
    schema = _schema(form)
    place = forms.unchecked(schema)
    if place is not None:
        raise BadOption(
            option="form",
            value=getattr(form, "__name__", form),
            why=f"its JSON Schema has a rule that is not checked ({place}): check it in a step",
        )
    return schema


def _schema(form: Any) -> dict[str, Any]:
    """Return the JSON Schema of a model. Raises BadOption."""
    try:
        if pydantic_models.is_model(form):
            schema: dict[str, Any] = form.model_json_schema()
            return schema
        return msgspec.json.schema(form)
    except Exception as error:
        raise BadOption(
            option="form",
            value=getattr(form, "__name__", form),
            why=f"the form has no JSON Schema: {error}",
        ) from None
