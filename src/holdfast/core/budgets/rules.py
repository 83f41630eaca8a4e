"""What may be spent: amounts, limits, breaches and resets. Pure.

Amounts are whole numbers of millionths, so that a tenth of a cent added ten times is a cent. All
dimensions are checked before any is applied, and without room none is. Only what has been spent
already is a fact and counted, whatever the limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from holdfast.core import duration
from holdfast.core.budgets.model import Breach, Budget, BudgetLine
from holdfast.core.runs import Limits
from holdfast.core.text import is_one_of, plain_text
from holdfast.errors import BadOption, BudgetExceeded, UnknownDimension

UNIT = 1_000_000
"""How many millionths a unit has."""

MOST = 1_000_000_000
"""The most that can be spent at once, and a thousandth of the highest limit: sums stay far from
what a database can count."""

WAIT, FAIL, CANCEL = "wait", "fail", "cancel"
ON_BREACH = (WAIT, FAIL, CANCEL)
"""What happens to a run that passes a hard limit: it waits until there is room, its step fails, or
it is cancelled."""

CALENDAR = ("hour", "day", "week", "month")

TREE, RUN = "tree:", "run:"
"""How the budget of a tree of runs is named, and the account of what a single run has spent."""

_DIMENSION = r"[A-Za-z][A-Za-z0-9_.-]{0,49}"

Amount = int | float | str | Decimal


def name_of(name: object) -> str:
    """Return the name of a budget that is shared; refuse what cannot be one."""
    if (
        not isinstance(name, str)
        or not name
        or len(name) > 200
        or not name.isprintable()
        or name.startswith(RUN)
    ):
        raise BadOption(
            option="budget", value=name, why="a budget has a name of one line, 1 to 200 characters"
        )
    return plain_text(name)


def own_name(name: object) -> str:
    """Return the name of a budget that people may create: those of trees come with their runs."""
    found = name_of(name)
    if found.startswith(TREE):
        raise BadOption(
            option="budget",
            value=name,
            why="the budget of a tree is made when its run is started with limits",
        )
    return found


def micros(option: str, amount: object, *, most: int = MOST) -> int:
    """Return an amount in millionths. Raises BadOption when it is negative or no number."""
    try:
        if isinstance(amount, bool) or not isinstance(amount, int | float | str | Decimal):
            raise InvalidOperation
        found = Decimal(repr(amount)) if isinstance(amount, float) else Decimal(amount)
        if not found.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise BadOption(
            option=option, value=amount, why="it must be a number, such as 1000 or 0.25"
        ) from None
    if found < 0:
        raise BadOption(option=option, value=amount, why="it must not be negative")
    if found > most:
        raise BadOption(option=option, value=amount, why=f"it must not be more than {most}")
    counted = int((found * UNIT).to_integral_value(ROUND_HALF_EVEN))
    if found and not counted:
        raise BadOption(
            option=option,
            value=amount,
            why="it is too little to be counted: amounts are exact to a millionth",
        )
    return counted


def amount(found: int) -> int | Decimal:
    """Return millionths as the number that they stand for."""
    whole, rest = divmod(found, UNIT)
    return whole if rest == 0 else (Decimal(found) / UNIT).normalize()


def show(found: int) -> str:
    """Write an amount for people."""
    return f"{amount(found):f}" if found % UNIT else str(found // UNIT)


def amounts_from(given: Mapping[str, object], *, most: int = MOST) -> dict[str, int]:
    """Return amounts by dimension, in millionths; refuse none at all. Raises BadOption."""
    if not isinstance(given, Mapping) or not given:
        raise BadOption(
            option="amounts", value=given, why="name at least one dimension, such as tokens=1000"
        )
    return {_dimension(name): micros(str(name), value, most=most) for name, value in given.items()}


def _dimension(name: object) -> str:
    if not isinstance(name, str) or not re.fullmatch(_DIMENSION, name):
        raise BadOption(
            option="dimension",
            value=name,
            why="it is a word of letters, digits and _ . - such as tokens",
        )
    if name == "key":
        raise BadOption(
            option="dimension",
            value=name,
            why="spend(key=...) is what it is counted once by: choose another word",
        )
    return name


def limits_from(
    hard: Mapping[str, object], soft: Mapping[str, object] | None = None, on_breach: object = WAIT
) -> Limits:
    """Return limits; None counts a dimension and does not limit it. Raises BadOption,
    UnknownDimension."""
    if not isinstance(hard, Mapping) or not hard:
        raise BadOption(
            option="limits", value=hard, why='name what is limited, such as {"tokens": 1000}'
        )
    if not is_one_of(on_breach, ON_BREACH):
        raise BadOption(option="on_breach", value=on_breach, known=", ".join(ON_BREACH))
    found = {
        _dimension(name): None if value is None else micros(str(name), value, most=MOST * 1000)
        for name, value in hard.items()
    }
    warned = (
        {}
        if soft is None or (isinstance(soft, Mapping) and not soft)
        else amounts_from(soft, most=MOST * 1000)
    )
    unknown = sorted(set(warned) - set(found))
    if unknown:
        raise UnknownDimension(dimension=unknown[0], known=", ".join(sorted(found)))
    for name, value in warned.items():
        limit = found[name]
        if limit is not None and value > limit:
            raise BadOption(option="soft", value=name, why="a soft limit is not above the hard one")
    return Limits(found, warned, str(on_breach))


def check_dimensions(wanted: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a dimension that none of the budgets counts. Raises UnknownDimension."""
    there = set(known)
    unknown = sorted(set(wanted) - there)
    if unknown and there:
        raise UnknownDimension(dimension=unknown[0], known=", ".join(sorted(there)))


# Deciding


def refusal(
    lines: Sequence[BudgetLine],
    wanted: Mapping[str, int],
    budgets: Mapping[str, Budget],
    credit: Mapping[str, int] | None = None,
) -> Breach | None:
    """Say which hard limit does not let all of *wanted* be taken; None when all fits. *credit* was
    set aside for it before."""
    for line in lines:
        more = wanted.get(line.dimension, 0) - (credit or {}).get(line.dimension, 0)
        if line.hard is not None and more > 0 and line.used + line.reserved + more > line.hard:
            return _breach(line, budgets, wanted[line.dimension])
    return None


def excess(lines: Sequence[BudgetLine], budgets: Mapping[str, Budget], now: int) -> Breach | None:
    """Say which hard limit is passed already; one that is due to be reset is not."""
    for line in lines:
        if line.hard is not None and line.used > line.hard and not is_due(line, now):
            return _breach(line, budgets, 0)
    return None


def crossed(lines: Sequence[BudgetLine], spent: Mapping[str, int]) -> list[BudgetLine]:
    """Return the lines whose soft limit was passed just now."""
    return [
        line
        for line in lines
        if line.soft is not None and line.used > line.soft >= line.used - spent[line.dimension]
    ]


def is_due(line: BudgetLine | Budget, now: int) -> bool:
    """Say whether it is time for a reset."""
    return line.reset_at is not None and line.reset_at <= now


def _breach(line: BudgetLine, budgets: Mapping[str, Budget], wanted: int) -> Breach:
    budget = budgets.get(line.budget) or Budget(name=line.budget)
    return Breach(
        line.budget,
        line.dimension,
        line.used,
        line.reserved,
        line.hard or 0,
        wanted,
        budget.on_breach,
        budget.reset_at,
    )


def facts_of(breach: Breach) -> dict[str, object]:
    """Return a breach as the facts of an error, for people."""
    wanted = {"wanted": show(breach.wanted)} if breach.wanted else {}
    reserved = {"reserved": show(breach.reserved)} if breach.reserved else {}
    return {
        "budget": breach.budget,
        "dimension": breach.dimension,
        "used": show(breach.used),
        **reserved,
        **wanted,
        "limit": show(breach.limit),
    }


def exceeded(breach: Breach, wanted: Mapping[str, int]) -> BudgetExceeded:
    """Return the error that says that there is no room for what is wanted."""
    error = BudgetExceeded(**facts_of(breach))
    error.breach, error.wanted = breach, dict(wanted)
    return error


def added(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums, by dimension."""
    found: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            found[name] = found.get(name, 0) + amount
    return found


def is_raised(old: Mapping[str, int | None], new: Mapping[str, int | None]) -> bool:
    """Say whether any limit lets more be spent than before."""
    return any(_more(limit, old.get(name, 0)) for name, limit in new.items())


def _more(new: int | None, old: int | None) -> bool:
    return old is not None and (new is None or new > old)


# Resetting


def checked_reset(reset: object, zone: object) -> tuple[str | None, str]:
    """Return how a budget is reset, as it is stored. Raises BadOption."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    if not isinstance(zone, str):
        raise BadOption(option="zone", value=zone, why="it is no time zone such as Europe/Berlin")
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadOption(
            option="zone", value=zone, why="it is no time zone such as Europe/Berlin"
        ) from None
    if reset is None or is_one_of(reset, CALENDAR):
        return (None if reset is None else str(reset)), str(zone)
    length = duration.parse(reset)  # type: ignore[arg-type]
    if length < UNIT:
        raise BadOption(
            option="reset",
            value=reset,
            why="it is hour, day, week, month, or a duration of at least a second",
        )
    return str(length), str(zone)


def next_reset(resets: str | None, zone: str, now: int, since: int) -> int | None:
    """Say when a budget is reset next: the first instant of its rhythm after *now*. An interval
    counts from *since*."""
    if resets is None:
        return None
    if resets not in CALENDAR:
        length = int(resets)
        return since + (max(now - since, 0) // length + 1) * length
    from zoneinfo import ZoneInfo

    here = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now)).astimezone(
        ZoneInfo(zone)
    )
    if (
        resets == "hour"
    ):  # counted in real time: an hour is an hour, whatever the clocks of the zone do
        start = now - (here.minute * 60 + here.second) * UNIT - here.microsecond
        return start + 3600 * UNIT
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    days = {"day": 1, "week": 7 - midnight.weekday()}.get(resets)
    then = (
        midnight + timedelta(days=days)
        if days is not None
        else (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
    )
    return int(then.timestamp()) * UNIT


def show_reset(resets: str | None, zone: str) -> str | None:
    """Write how a budget is reset."""
    if resets is None or resets in CALENDAR:
        return resets if resets is None or zone == "UTC" else f"{resets} ({zone})"
    return duration.show(int(resets))


def as_wait(breach: Breach, step: str) -> dict[str, Any]:
    """Return a breach as what a run waits for."""
    return {
        "kind": "budget",
        "step": step,
        "budget": breach.budget,
        "dimension": breach.dimension,
        "used": breach.used,
        "reserved": breach.reserved,
        "limit": breach.limit,
        "wanted": breach.wanted,
        "until": breach.reset_at,
    }


def names(waits: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return the budgets that these waits wait for."""
    return {str(wait.get("budget")) for wait in waits if wait.get("kind") == "budget"}


# Which budgets a run draws on


def read_option(option: object) -> tuple[tuple[str, ...], Limits | None]:
    """Read what a start is told of budgets: a name, limits for its tree, or a list of these. Raises
    BadOption."""
    if option is None:
        return (), None
    names: list[str] = []
    limits: Limits | None = None
    for one in option if isinstance(option, list | tuple) else [option]:
        if isinstance(one, Mapping):
            if limits is not None:
                raise BadOption(
                    option="budget", value=one, why="a tree of runs has one set of limits"
                )
            limits = limits_from(
                {name: value for name, value in one.items() if name not in _WORDS}, **_words(one)
            )
        else:
            names.append(_shared_name(one))
    return tuple(dict.fromkeys(names)), limits


def _shared_name(name: object) -> str:
    """Return the name of a shared budget that a start draws on. The budget of a tree is for the
    runs of that tree alone."""
    found = name_of(name)
    if found.startswith(TREE):
        raise BadOption(
            option="budget",
            value=name,
            why="the budget of a tree is for its own runs: name a shared budget",
        )
    return found


_WORDS = ("on_breach", "soft")


def _words(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in _WORDS if name in given}


def drawn_on(
    option: object, run_id: str, inherited: Sequence[str] = ()
) -> tuple[tuple[str, ...], Limits | None]:
    """Return the budgets of a new run: those of its parent, those it names, and that of its own
    tree."""
    names, limits = read_option(option)
    own = () if limits is None else (f"{TREE}{run_id}",)
    return tuple(dict.fromkeys([*inherited, *names, *own])), limits
