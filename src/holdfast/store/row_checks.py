"""Check a whole row of a table, for `db check`: its columns, its JSON, and the values of users.

Other reads check only the columns that they return, by `soundness`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core.api_keys import Role
from holdfast.core.budgets.rules import CALENDAR, is_reset_rule
from holdfast.core.definitions import DefinitionState, digest_of
from holdfast.core.envelope import is_sealed, split
from holdfast.core.schedules import time_zones
from holdfast.core.status import Status
from holdfast.core.subscriptions import checked_url
from holdfast.core.tokens import SHORTEST_SECRET
from holdfast.errors import BadData, BadOption, BadSchedule, RowDamaged
from holdfast.store.schema import TableShape, shown
from holdfast.store.soundness import MISSING, damaged, missing_values, place_of
from holdfast.store.stored_json import VALUES, wrong_json


def wrongs(table: TableShape, row: dict[str, Any]) -> Iterator[RowDamaged]:
    """Yield an error for each column of a table's row that cannot be right, except values
    of users."""
    reasons = {
        name: why
        for name, value in row.items()
        if (why := table.columns[name].wrong(value)) is not None
    }
    reasons |= dict.fromkeys(missing_values(table, row), MISSING)
    for name, why in wrong_json(table.name, row):
        reasons.setdefault(name, why)
    # Only for a few tables: these checks are slow, and most rows have nothing to check.
    if "zone" in row or table.name in _MEANT:
        for name, why in (
            *_unknown_zones(row),
            *_bad_addresses(table, row),
            *_bad_numbers(table, row),
            *_bad_words(table, row),
            *_bad_definitions(table, row),
        ):
            reasons.setdefault(name, why)
    for column, why in reasons.items():
        yield damaged(table.name, place_of(table, row), column, why)


def _unknown_zones(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the column of a row that names a time zone which this machine does not know."""
    try:
        time_zones.zone_of(row.get("zone", "UTC"))
    except BadSchedule as error:
        yield "zone", str(error.facts["why"])


_WORD_LISTS: Mapping[tuple[str, str], frozenset[str]] = {
    ("api_key", "roles"): frozenset(Role),
    ("login", "roles"): frozenset(Role),
    ("retention", "statuses"): frozenset(Status),
}
"""The columns that hold some of a few words, separated by commas."""

_MEANT = frozenset({"budget", "definition", "definition_content", "key", "subscription"}) | {
    table for table, _ in _WORD_LISTS
}
"""The tables with columns whose values must also have a meaning, such as a URL."""


def _bad_words(table: TableShape, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the columns whose list contains an unknown word."""
    for (name, column), words in _WORD_LISTS.items():
        text = row.get(column)
        if name != table.name or not isinstance(text, str) or not text:
            continue
        unknown = [word for word in text.split(",") if word not in words]
        if unknown:
            yield column, f"{shown(column, unknown[0])} is none of {', '.join(sorted(words))}"


def _bad_definitions(table: TableShape, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the version of a deployed definition that is not a number, and content that has changed
    since it was stored."""
    version = row.get("version") if table.name == "definition" else None
    is_deployed = row.get("state") != DefinitionState.FROZEN
    if isinstance(version, str) and is_deployed and not version.isdecimal():
        yield "version", f"{shown('version', version)} is not a number"
    content = row.get("content") if table.name == "definition_content" else None
    if isinstance(content, bytes | memoryview) and digest_of(bytes(content)) != row["digest"]:
        yield "content", "the content does not have its digest"


def _bad_numbers(table: TableShape, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the reset interval of a budget if it is not usable, and a secret that is too short."""
    resets = row.get("resets") if table.name == "budget" else None
    if isinstance(resets, str) and not is_reset_rule(resets):
        yield "resets", f"the value is neither {', '.join(CALENDAR)} nor a number of microseconds"
    secret = row.get("secret") if table.name == "key" else None
    if isinstance(secret, bytes | memoryview) and len(secret) < SHORTEST_SECRET:
        yield "secret", "the secret is too short"


def _bad_addresses(table: TableShape, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the column of a webhook whose URL is not usable for a delivery."""
    if table.name != "subscription" or not isinstance(row.get("url"), str):
        return
    try:
        checked_url(row["url"])
    except BadOption as error:
        yield "url", str(error.facts["why"])


_KEPT_ELSEWHERE = frozenset({("run", "input"), ("graph_member", "input")})
"""The columns in which an empty value means that it is stored in another table."""


def wrong_values(table: TableShape, row: Mapping[str, Any]) -> Iterator[RowDamaged]:
    """Yield an error for each user value of a row that is neither JSON nor sealed."""
    for name in VALUES.get(table.name, ()):
        value = row[name]
        if not isinstance(value, bytes) or (value == b"" and (table.name, name) in _KEPT_ELSEWHERE):
            continue
        try:
            if is_sealed(value):
                split(value)
            else:
                msgspec.json.decode(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, BadData) as error:
            yield damaged(
                table.name,
                place_of(table, row),
                name,
                f"the value can be neither opened nor read: {error}",
            )
