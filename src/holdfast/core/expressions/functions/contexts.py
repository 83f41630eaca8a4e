"""Functions of FEEL for contexts."""

from __future__ import annotations

from typing import Any

from holdfast.core.expressions.functions.signature import FunctionTable
from holdfast.core.expressions.scope import Evaluation

FUNCTIONS = FunctionTable()


@FUNCTIONS.define("get value", "m:c, key:s")
def _get_value(evaluation: Evaluation, context: dict[str, Any], key: str) -> Any:
    return context.get(key)


@FUNCTIONS.define("get value", "context:c, keys:l")
def _get_nested(evaluation: Evaluation, context: Any, keys: list[Any]) -> Any:
    for key in keys:
        if not isinstance(context, dict) or not isinstance(key, str):
            return None
        context = context.get(key)
    return context


@FUNCTIONS.define("get entries", "m:c")
def _get_entries(evaluation: Evaluation, context: dict[str, Any]) -> list[Any]:
    evaluation.produce(len(context))
    return [{"key": key, "value": value} for key, value in context.items()]


@FUNCTIONS.define("context", "entries:l")
def _context(evaluation: Evaluation, entries: list[Any]) -> dict[str, Any] | None:
    context: dict[str, Any] = {}
    for entry in entries:
        evaluation.produce(1)
        if not isinstance(entry, dict) or "value" not in entry:
            return None
        key = entry.get("key")
        if not isinstance(key, str) or key in context:
            return None
        context[key] = entry["value"]
    return context


@FUNCTIONS.define("context put", "context:c, key:s, value:a*")
def _put(evaluation: Evaluation, context: dict[str, Any], key: str, value: Any) -> Any:
    evaluation.produce(len(context) + 1)
    return {**context, key: value}


@FUNCTIONS.define("context put", "context:c, keys:l, value:a*")
def _put_nested(evaluation: Evaluation, context: Any, keys: list[Any], value: Any) -> Any:
    if not keys or not all(isinstance(key, str) for key in keys):
        return None
    chain = [context]
    for key in keys[:-1]:
        inner = chain[-1].get(key)
        if not isinstance(inner, dict):
            return None
        chain.append(inner)
    for key, outer in zip(reversed(keys), reversed(chain), strict=True):
        evaluation.produce(len(outer) + 1)
        value = {**outer, key: value}
    return value


@FUNCTIONS.define("context merge", "contexts:l")
def _merge(evaluation: Evaluation, contexts: list[Any]) -> dict[str, Any] | None:
    merged: dict[str, Any] = {}
    for context in contexts:
        if not isinstance(context, dict):
            return None
        evaluation.produce(len(context))
        merged.update(context)
    return merged
