"""Serialize the outputs of LangGraph nodes to plain JSON, and back: messages, commands and the
types of the state, each by its name.

Stored data cannot cause an import or a call: only types that the state or the user names are
instantiated.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from langchain_core.messages import BaseMessage, messages_from_dict
from langgraph.types import Command, Overwrite, Send

from holdfast.core import pydantic_models
from holdfast.core.codec import JsonCodec, fit
from holdfast.errors import BadData, BadOption, NotEncodable

_PLAIN = (dt.datetime, dt.date, dt.time, dt.timedelta, uuid.UUID, decimal.Decimal, bytes)
_CODEC = JsonCodec()
_MARK = "$"
"""The prefix of keys that tell the type of a value."""


class GraphValues:
    """Converts values of the known types to plain data, and back."""

    def __init__(self, types: Iterable[Any]) -> None:
        self._types: dict[str, Any] = {kind.__name__: kind for kind in _PLAIN}
        for kind in types:
            if self._types.setdefault(kind.__name__, kind) is not kind:
                raise BadOption(
                    option="types", value=kind.__name__, why="two types of the state have this name"
                )

    def store(self, value: Any) -> Any:
        """Return a value as plain data. Raises NotEncodable."""
        if value is None or type(value) in (str, bool, int, float):
            return value
        if isinstance(value, list):
            return [self.store(item) for item in value]
        if isinstance(value, Mapping):
            return self._store_mapping(value)
        if isinstance(value, tuple | set | frozenset):
            return {f"{_MARK}{type(value).__name__}": [self.store(item) for item in value]}
        return self._store_object(value)

    def _store_mapping(self, value: Mapping[Any, Any]) -> Any:
        if all(isinstance(key, str) and not key.startswith(_MARK) for key in value):
            return {key: self.store(item) for key, item in value.items()}
        pairs = [[self.store(key), self.store(item)] for key, item in value.items()]
        return {f"{_MARK}dict": pairs}

    def _store_object(self, value: Any) -> Any:
        if isinstance(value, BaseMessage):
            fields = {name: getattr(value, name) for name in type(value).model_fields}
            fields |= value.model_extra or {}
            return {f"{_MARK}message": [value.type, self.store(fields)]}
        if isinstance(value, Send):
            return {f"{_MARK}send": [value.node, self.store(value.arg)]}
        if isinstance(value, Command):
            parts = {name: self.store(getattr(value, name)) for name in ("graph", "update", "goto")}
            return {f"{_MARK}command": parts}
        if isinstance(value, Overwrite):
            return {f"{_MARK}overwrite": self.store(value.value)}
        name = type(value).__name__
        if self._types.get(name) is not type(value):
            raise NotEncodable(
                value=name, why=f"the state does not name this type: use run(..., types=[{name}])"
            )
        return {f"{_MARK}type": [name, msgspec.json.decode(_CODEC.encode(value, label=name))]}

    def restore(self, data: Any) -> Any:
        """Return the value that was stored. Raises BadData."""
        if isinstance(data, list):
            return [self.restore(item) for item in data]
        if not isinstance(data, dict):
            return data
        mark = next(iter(data), "")
        if len(data) != 1 or not mark.startswith(_MARK):
            return {key: self.restore(item) for key, item in data.items()}
        return self._restore_marked(mark, data[mark])

    def _restore_marked(self, mark: str, body: Any) -> Any:
        match mark.removeprefix(_MARK):
            case "type":
                kind = self._types.get(body[0])
                if kind is None:
                    raise BadData(
                        type=body[0],
                        why="the state no longer names this type: use run(..., types=[...])",
                    )
                return fit(body[1], kind, body[0])
            case "message":
                return messages_from_dict([{"type": body[0], "data": self.restore(body[1])}])[0]
            case "send":
                return Send(body[0], self.restore(body[1]))
            case "command":
                return Command(**{name: self.restore(item) for name, item in body.items()})
            case "overwrite":
                return Overwrite(self.restore(body))
            case "dict":
                return {self.restore(key): self.restore(item) for key, item in body}
            case "tuple" | "set" | "frozenset" as name:
                kinds: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset}
                return kinds[name](self.restore(item) for item in body)
        raise BadData(mark=mark, why="another version of Holdfast wrote this mark")


def types_in(*schemas: Any) -> list[Any]:
    """Return the storable types among the schemas of a state and, recursively, the types in their
    annotations."""
    types_by_id: dict[int, Any] = {}
    for schema in schemas:
        _collect(schema, types_by_id)
    return [kind for kind in types_by_id.values() if _is_storable(kind)]


def _is_storable(kind: Any) -> bool:
    if not isinstance(kind, type) or issubclass(kind, BaseMessage):
        return False
    return (
        pydantic_models.is_model(kind)
        or is_dataclass(kind)
        or issubclass(kind, msgspec.Struct | enum.Enum)
    )


def _collect(kind: Any, types_by_id: dict[int, Any]) -> None:
    if id(kind) in types_by_id:
        return
    types_by_id[id(kind)] = kind
    if get_origin(kind) is not None:
        for part in get_args(kind):
            _collect(part, types_by_id)
    elif isinstance(kind, type) and not issubclass(kind, BaseMessage):
        try:
            hints = get_type_hints(kind, include_extras=True)
        except (NameError, TypeError):  # annotations that cannot be resolved here name no types
            return
        for part in hints.values():
            _collect(part, types_by_id)
