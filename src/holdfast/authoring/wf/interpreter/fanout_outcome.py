"""The outcome of a foreach, derived from its items and their ends. Pure: the interpreter and the
view of steps both use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.authoring.wf.interpreter.state import StepResult
from holdfast.errors.wf_runs import BadItem

MOST_ITEMS = 100_000


class ItemEnd(NamedTuple):
    """How an item ended: ``completed``, ``failed`` or ``skipped``."""

    status: str
    output: Any = None
    run: str | None = None
    error: str = ""


class ItemRecord(NamedTuple):
    """An item, as it is recorded."""

    id: str
    ref: str
    context: Mapping[str, str]
    after: tuple[str, ...]

    def variables(self) -> dict[str, str]:
        """Return the variables of the item: its context, its id and its ref."""
        values = {f"item.{name}": text for name, text in self.context.items()}
        values["item.id"] = self.id
        values["item.ref"] = self.ref
        return values


def item_data(provider: str, answer: Any) -> list[dict[str, Any]]:
    """Return the items of a provider as they are recorded, each id once. Raises BadItem."""
    if answer is None:
        return []
    if isinstance(answer, str | bytes | Mapping) or not hasattr(answer, "__iter__"):
        raise BadItem(provider=provider, why="a provider returns a list of wf.Item")
    items: dict[str, dict[str, Any]] = {}
    for number, item in enumerate(answer):
        data = _one_item(provider, number, item)
        items.setdefault(data["id"], data)
        if len(items) > MOST_ITEMS:
            raise BadItem(provider=provider, why=f"there are more than {MOST_ITEMS} items")
    return list(items.values())


def _one_item(provider: str, number: int, item: Any) -> dict[str, Any]:
    fields: Mapping[str, Any]
    if isinstance(item, Mapping):
        unknown = sorted(
            str(name) for name in item if name not in ("id", "ref", "context", "after")
        )
        if unknown:
            raise BadItem(provider=provider, item=number, why=f"an item has no field {unknown[0]}")
        fields = item
    elif hasattr(item, "id"):
        names = ("id", "ref", "context", "after")
        fields = {name: getattr(item, name, None) for name in names}
    else:
        raise BadItem(provider=provider, item=number, why="an item is a wf.Item or an object")
    item_id = fields.get("id")
    if not isinstance(item_id, str) or not item_id or len(item_id) > 1000 or "\0" in item_id:
        raise BadItem(provider=provider, item=number, why="the id of an item is a text")
    context = fields.get("context") or {}
    if not isinstance(context, Mapping):
        raise BadItem(provider=provider, item=item_id, why="the context of an item is an object")
    after = fields.get("after") or ()
    if isinstance(after, str) or not all(isinstance(name, str) for name in after):
        raise BadItem(provider=provider, item=item_id, why="after lists the ids of other items")
    data: dict[str, Any] = {"id": item_id}
    if fields.get("ref"):
        data["ref"] = str(fields["ref"])
    if context:
        data["context"] = {str(name): _text(value) for name, value in context.items()}
    if after:
        data["after"] = list(after)
    return data


def _text(value: Any) -> str:
    from holdfast.authoring.wf.variables import text_of_value

    return text_of_value(value)


def read_items(data: Any) -> list[ItemRecord]:
    """Return recorded items. Dependencies on items outside the set do not count."""
    known = {item["id"] for item in data or ()}
    return [
        ItemRecord(
            item["id"],
            item.get("ref", ""),
            item.get("context", {}),
            tuple(
                name
                for name in dict.fromkeys(item.get("after", ()))
                if name in known and name != item["id"]
            ),
        )
        for item in data or ()
    ]


def outcome_of(
    name: str, provider: str, items: Sequence[ItemRecord], ends: Mapping[str, ItemEnd]
) -> StepResult:
    """Return the result of a foreach whose items have ended as *ends* says."""
    counts = {"completed": 0, "failed": 0, "skipped": 0}
    for end in ends.values():
        counts[end.status] += 1
    context = (
        f"foreach {name}: {counts['completed']} completed, {counts['failed']} failed,"
        f" {counts['skipped']} skipped of {len(items)} {provider}"
    )
    markers = []
    if counts["failed"]:
        markers.append("has_failures")
    if counts["skipped"]:
        markers.append("has_skipped")
    output = {
        "items": [
            {"item_id": item_id, "status": ends[item_id].status, "output": ends[item_id].output}
            for item_id in sorted(ends)
        ]
    }
    return StepResult(markers, context, output)


def is_success(policy: str, items: Sequence[ItemRecord], ends: Mapping[str, ItemEnd]) -> bool:
    """Return whether a foreach completes: with ``halt`` if no item failed, else if at least one
    item completed or there are none."""
    statuses = [end.status for end in ends.values()]
    if policy == "halt":
        return "failed" not in statuses
    return not items or "completed" in statuses


def waits_in_circle(cycle: Sequence[str]) -> str:
    """Return the message about items that wait for each other."""
    return f"the items wait for each other: {' -> '.join(cycle)}"


def find_cycle(items: Sequence[ItemRecord]) -> list[str]:
    """Return the ids of items that wait for each other in a circle; empty if there is none."""
    after = {item.id: item.after for item in items}
    done: set[str] = set()
    for start in after:
        path: list[str] = []
        on_path: set[str] = set()
        stack: list[tuple[str, int]] = [(start, 0)]
        while stack:
            node, position = stack.pop()
            if position == 0:
                if node in done:
                    continue
                path.append(node)
                on_path.add(node)
            if position < len(after[node]):
                stack.append((node, position + 1))
                below = after[node][position]
                if below in on_path:
                    return [*path[path.index(below) :], below]
                if below not in done:
                    stack.append((below, 0))
            else:
                done.add(node)
                path.pop()
                on_path.discard(node)
    return []


def without_cycles(items: Sequence[ItemRecord]) -> tuple[list[ItemRecord], bool]:
    """Return the items without the dependencies that close a circle, and whether there were any."""
    remaining = list(items)
    changed = False
    while True:
        cycle = find_cycle(remaining)
        if not cycle:
            return remaining, changed
        changed = True
        waiting, blocker = cycle[-2], cycle[-1]
        remaining = [
            item._replace(after=tuple(name for name in item.after if name != blocker))
            if item.id == waiting
            else item
            for item in remaining
        ]
