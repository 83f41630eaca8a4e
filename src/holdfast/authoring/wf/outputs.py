"""The output of a step, and the output block that a script or an agent prints.

A block stands between ``<<<FLOW_OUTPUT>>>`` and ``<<<END_FLOW_OUTPUT>>>``. The last start marker
that is followed by JSON or a code fence counts. Fences, trailing commas and invalid escapes are
repaired. A text that is no JSON object with the right types even then is no output.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.errors.wf_runs import BadStepOutput

START = "<<<FLOW_OUTPUT>>>"
END = "<<<END_FLOW_OUTPUT>>>"

MOST_BYTES = 1_000_000
"""The size of the largest output of a step, as JSON."""

CONTEXT_CHARACTERS = 2000
"""How much of the printed text is the context of a step without an output block."""

METRICS = (
    "cost_usd",
    "num_turns",
    "duration_ms",
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
)

_FENCE = re.compile(r"^```[\w-]*\s*\n?|\n?```\s*$")
_FIELDS = frozenset({"markers", "context", "output", "text", "metrics"})


class StepOutput:
    """The outcome of a call: markers and context for later steps, structured output, printed text
    that is searched for an output block, and metrics."""

    __slots__ = ("context", "markers", "metrics", "output", "text")

    def __init__(
        self,
        markers: list[str] | None = None,
        context: str | None = None,
        output: Any = None,
        text: str | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(markers, str | bytes | Mapping):  # its letters or keys would be the markers
            raise BadStepOutput(field="markers", why="the markers are a list of texts")
        self.markers: list[str] | None = None if markers is None else list(markers)
        self.context: str | None = context
        self.output: Any = output
        self.text: str | None = text
        self.metrics: Mapping[str, Any] | None = metrics

    def __repr__(self) -> str:
        return f"<output {self.markers or []} {self.context or ''!r}>"


def output_of(value: Any, executor: str) -> StepOutput:
    """Return the answer of an executor as an StepOutput. Raises BadStepOutput."""
    if value is None:
        return StepOutput()
    if isinstance(value, StepOutput):
        output = value
    elif isinstance(value, str):
        output = StepOutput(text=value)
    elif isinstance(value, dict | Mapping):
        if not value.keys() <= _FIELDS:
            raise BadStepOutput(
                executor=executor,
                field=min(str(name) for name in value if name not in _FIELDS),
                why=f"an answer has the fields {', '.join(sorted(_FIELDS))}",
            )
        output = StepOutput(**value)
    else:
        raise BadStepOutput(
            executor=executor,
            why=f"a {type(value).__name__} is no answer: return wf.Output, a dict, a str or None",
        )
    _check_types(output, executor)
    return output


def _check_types(output: StepOutput, executor: str) -> None:
    if output.markers is not None:
        for word in output.markers:
            if not isinstance(word, str):
                raise BadStepOutput(executor=executor, field="markers", why="each marker is a text")
    if not isinstance(output.context, str | None):
        raise BadStepOutput(executor=executor, field="context", why="the context is a text")
    if not isinstance(output.text, str | None):
        raise BadStepOutput(executor=executor, field="text", why="the text is a text")
    if output.metrics is not None and not isinstance(output.metrics, dict | Mapping):
        raise BadStepOutput(executor=executor, field="metrics", why="metrics are an object")


def with_block(output: StepOutput, *, has_schema: bool) -> StepOutput:
    """Return the output with the fields of the block in its text. With a schema, the whole block is
    the structured output."""
    if output.text is None or output.markers is not None or output.output is not None:
        return output
    if has_schema:
        data = raw_block(output.text)
        if data is None:
            raise BadStepOutput(why=f"it printed no output block: {START} JSON {END}")
        return StepOutput(None, output.context, data, None, output.metrics)
    block = parse_block(output.text)
    if block is None:
        return StepOutput(context=output.context, metrics=output.metrics)
    context = block.context if output.context is None else output.context
    return StepOutput(block.markers, context, block.output, None, output.metrics)


def parse_block(text: str) -> StepOutput | None:
    """Return the last output block of a printed text; None if there is none that can be read.

    Fields beside ``markers`` and ``context`` are the structured output.
    """
    data = raw_block(text)
    if not isinstance(data, dict):
        return None
    markers = data.pop("markers", [])
    context = data.pop("context", "")
    if not isinstance(markers, list) or not all(isinstance(word, str) for word in markers):
        return None
    if not isinstance(context, str):
        return None
    return StepOutput(markers, context, data or None)


def raw_block(text: str) -> Any:
    """Return the JSON value of the last output block; None if there is none that can be read."""
    body = _last_body(text)
    if body is None or len(body) > MOST_BYTES:
        return None
    while True:
        stripped = _FENCE.sub("", body).strip()
        if stripped == body:
            break
        body = stripped
    for candidate in (body, _repaired(body)):
        try:
            return msgspec.json.decode(candidate)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            continue
    return None


def _last_body(text: str) -> str | None:
    """Return the text of the last block: after the last start marker that JSON follows."""
    position = len(text)
    while True:
        position = text.rfind(START, 0, position)
        if position < 0:
            return None
        rest = text[position + len(START) :]
        body = rest.lstrip()
        if body.startswith(("{", "[", "```")):
            return body.partition(END)[0].strip()


def _repaired(body: str) -> str:
    """Return JSON without trailing commas, and with invalid escapes doubled."""
    parts: list[str] = []
    index = 0
    in_string = False
    while index < len(body):
        char = body[index]
        if in_string:
            if char == "\\":
                following = body[index + 1 : index + 2]
                parts.append(char + following if following in '"\\/bfnrtu' else "\\\\" + following)
                index += 2
                continue
            in_string = char != '"'
        elif char == '"':
            in_string = True
        elif char == "," and body[index + 1 :].lstrip()[:1] in ("}", "]"):
            index += 1
            continue
        parts.append(char)
        index += 1
    return "".join(parts)


def context_of_text(text: str) -> str:
    """Return the context of a step that printed no output block."""
    return text[:CONTEXT_CHARACTERS]


def metrics_of(metrics: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the metrics that are numbers. Raises BadStepOutput for another value."""
    numbers: dict[str, float] = {}
    for name, value in (metrics or {}).items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise BadStepOutput(
                field=f"metrics.{name}", value=value, why="a metric is a number"
            ) from None
        if not 0 <= number < 1e15:
            raise BadStepOutput(
                field=f"metrics.{name}", value=value, why="a metric is finite and not negative"
            )
        numbers[str(name)] = int(number) if number.is_integer() else number
    return numbers
