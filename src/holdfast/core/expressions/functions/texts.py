"""Functions of FEEL for texts, without regular expressions."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from holdfast.core.expressions.functions.signature import FunctionTable
from holdfast.core.expressions.scope import Evaluation

FUNCTIONS = FunctionTable()


def _produced(evaluation: Evaluation, text: str) -> str:
    evaluation.produce(len(text))
    return text


@FUNCTIONS.define("substring", "string:s, start position:n, length?:n*")
def _substring(
    evaluation: Evaluation, text: str, start: Decimal, length: Decimal | None = None
) -> str | None:
    first = int(start)
    if first == 0 or abs(first) > len(text):
        return None
    if first < 0:
        first += len(text) + 1
    if length is None:
        return _produced(evaluation, text[first - 1 :])
    if length < 1:
        return None
    return _produced(evaluation, text[first - 1 : first - 1 + int(length)])


@FUNCTIONS.define("string length", "string:s")
def _length(evaluation: Evaluation, text: str) -> Decimal:
    return Decimal(len(text))


@FUNCTIONS.define("upper case", "string:s")
def _upper(evaluation: Evaluation, text: str) -> str:
    return _produced(evaluation, text.upper())


@FUNCTIONS.define("lower case", "string:s")
def _lower(evaluation: Evaluation, text: str) -> str:
    return _produced(evaluation, text.lower())


@FUNCTIONS.define("trim", "string:s")
def _trim(evaluation: Evaluation, text: str) -> str:
    return text.strip()


@FUNCTIONS.define("substring before", "string:s, match:s")
def _before(evaluation: Evaluation, text: str, match: str) -> str:
    before, separator, _ = text.partition(match) if match else ("", "", "")
    return before if separator else ""


@FUNCTIONS.define("substring after", "string:s, match:s")
def _after(evaluation: Evaluation, text: str, match: str) -> str:
    if not match:
        return text
    return text.partition(match)[2]


@FUNCTIONS.define("contains", "string:s, match:s")
def _contains(evaluation: Evaluation, text: str, match: str) -> bool:
    return match in text


@FUNCTIONS.define("starts with", "string:s, match:s")
def _starts(evaluation: Evaluation, text: str, match: str) -> bool:
    return text.startswith(match)


@FUNCTIONS.define("ends with", "string:s, match:s")
def _ends(evaluation: Evaluation, text: str, match: str) -> bool:
    return text.endswith(match)


@FUNCTIONS.define("string join", "list:l, delimiter?:s*")
def _join(evaluation: Evaluation, values: list[Any], delimiter: str | None = None) -> str | None:
    texts = [value for value in values if value is not None]
    if not all(isinstance(text, str) for text in texts):
        return None
    separator = delimiter or ""
    evaluation.produce(sum(map(len, texts)) + len(texts) * len(separator))
    return separator.join(texts)
