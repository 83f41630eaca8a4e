"""Rules of budgets: amounts, limits, breaches and resets. Pure.

Invariants:
- Amounts are whole numbers of millionths, so that a tenth of a cent added ten times is a cent.
- All dimensions of a request are checked before any is applied; if one does not fit, none is.
- Spending that has already happened is a fact: it is counted whatever the limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any

from holdfast.core import duration
from holdfast.core.budgets.model import Breach, Budget, BudgetLine, OnBreach, SoftBreach
from holdfast.core.runs import Limits
from holdfast.core.text import is_one_of, plain_text
from holdfast.core.waits import WaitKind
from holdfast.errors import BadOption, BudgetExceeded, UnknownDimension

UNIT = 1_000_000
"""Millionths per unit."""

MOST = 1_000_000_000
"""The largest amount, in units, of one act of spending. The highest limit is a thousand times as
much, so that sums stay far below the largest integer of a database."""

ON_BREACH = tuple(choice.value for choice in OnBreach)
"""The reactions to a breach of a hard limit: the run waits until there is room, its step fails, or
the run is cancelled."""

CALENDAR = ("hour", "day", "week", "month")

TREE = "tree:"
"""Prefix of the name of a budget that belongs to a tree of runs."""

RUN = "run:"
"""Prefix of the name of the account that records the spending of a single run."""

_DIMENSION = r"[A-Za-z][A-Za-z0-9_.-]{0,49}"

Amount = int | float | str | Decimal


def name_of(name: object) -> str:
    """Return the name of a budget. Raises BadOption."""
    if (
        not isinstance(name, str)
        or not name
        or len(name) > 200
        or not name.isprintable()
        or name.startswith(RUN)
    ):
        raise BadOption(
            option="budget",
            value=name,
            why=f"the name must be one line of 1 to 200 characters, not beginning with {RUN}",
        )
    return plain_text(name)


def own_name(name: object) -> str:
    """Return the name of a budget that a user may create. Raises BadOption for the budget of a
    tree: it is created with its run."""
    budget = name_of(name)
    if budget.startswith(TREE):
        raise BadOption(
            option="budget",
            value=name,
            why="the budget of a tree is created by starting its run with limits",
        )
    return budget


def micros(option: str, amount: object, *, most: int = MOST) -> int:
    """Return an amount in millionths. Raises BadOption if it is not a finite number, is negative,
    exceeds *most* units or rounds to zero."""
    try:
        if isinstance(amount, bool) or not isinstance(amount, int | float | str | Decimal):
            raise InvalidOperation
        # Through repr, a float keeps the digits that the user wrote: 0.1 is exactly a tenth.
        units = Decimal(repr(amount)) if isinstance(amount, float) else Decimal(amount)
        if not units.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise BadOption(
            option=option, value=amount, why="it must be a number, such as 1000 or 0.25"
        ) from None
    if units < 0:
        raise BadOption(option=option, value=amount, why="it must not be negative")
    if units > most:
        raise BadOption(option=option, value=amount, why=f"it must not be more than {most}")
    millionths = int((units * UNIT).to_integral_value(ROUND_HALF_EVEN))
    if units and not millionths:
        raise BadOption(
            option=option,
            value=amount,
            why="the amount is too little to be counted: amounts are exact to a millionth",
        )
    return millionths


def amount(millionths: int) -> int | Decimal:
    """Return millionths as a number of units."""
    whole, rest = divmod(millionths, UNIT)
    if rest == 0:
        return whole
    return (Decimal(millionths) / UNIT).normalize()


def show(millionths: int) -> str:
    """Return an amount as text for people, in units."""
    if millionths % UNIT:
        return f"{amount(millionths):f}"
    return str(millionths // UNIT)


def amounts_from(amounts: Mapping[str, object], *, most: int = MOST) -> dict[str, int]:
    """Return amounts by dimension, in millionths. Raises BadOption, also if there are none."""
    if not isinstance(amounts, Mapping) or not amounts:
        raise BadOption(
            option="amounts", value=amounts, why="name at least one dimension, such as tokens=1000"
        )
    return {
        _dimension(name): micros(str(name), value, most=most) for name, value in amounts.items()
    }


def _dimension(name: object) -> str:
    """Return the name of a dimension. Raises BadOption."""
    if not isinstance(name, str) or not re.fullmatch(_DIMENSION, name):
        raise BadOption(
            option="dimension",
            value=name,
            why="the name must be a word of letters, digits and _ . - such as tokens",
        )
    if name == "key":
        raise BadOption(
            option="dimension",
            value=name,
            why="spend(key=...) takes the key that prevents double counting: choose another name",
        )
    return name


def limits_from(
    hard: Mapping[str, object],
    soft: Mapping[str, object] | None = None,
    on_breach: object = OnBreach.WAIT,
) -> Limits:
    """Return limits in millionths. A hard limit of None means that the dimension is counted and not
    limited. Raises BadOption, UnknownDimension."""
    if not isinstance(hard, Mapping) or not hard:
        raise BadOption(
            option="limits",
            value=hard,
            why='name at least one dimension and its limit, such as {"tokens": 1000}',
        )
    if not is_one_of(on_breach, ON_BREACH):
        raise BadOption(option="on_breach", value=on_breach, known=", ".join(ON_BREACH))
    hard_limits = {
        _dimension(name): None if value is None else micros(str(name), value, most=MOST * 1000)
        for name, value in hard.items()
    }
    soft_limits: dict[str, int] = {}
    if soft is not None and not (isinstance(soft, Mapping) and not soft):
        soft_limits = amounts_from(soft, most=MOST * 1000)
    unknown = sorted(set(soft_limits) - set(hard_limits))
    if unknown:
        raise UnknownDimension(dimension=unknown[0], known=", ".join(sorted(hard_limits)))
    for name, value in soft_limits.items():
        limit = hard_limits[name]
        if limit is not None and value > limit:
            raise BadOption(
                option="soft", value=name, why="the soft limit must not be above the hard limit"
            )
    return Limits(hard_limits, soft_limits, str(on_breach))


def check_dimensions(wanted: Iterable[str], known: Iterable[str]) -> None:
    """Raise UnknownDimension if no budget counts one of the *wanted* dimensions. Without any
    *known* dimension there is no budget, and everything passes."""
    known_names = set(known)
    unknown = sorted(set(wanted) - known_names)
    if unknown and known_names:
        raise UnknownDimension(dimension=unknown[0], known=", ".join(sorted(known_names)))


def check_counted(
    wanted: Iterable[str], lines: Sequence[BudgetLine], budgets: Iterable[str]
) -> None:
    """Raise UnknownDimension if none of the *budgets* of a run, which have these *lines*, counts
    one of the *wanted* dimensions. A budget without lines was removed and may have counted it."""
    if {line.budget for line in lines}.issuperset(budgets):
        check_dimensions(wanted, [line.dimension for line in lines])


# Deciding


def refusal(
    lines: Sequence[BudgetLine],
    wanted: Mapping[str, int],
    budgets: Mapping[str, Budget],
    credit: Mapping[str, int] | None = None,
) -> Breach | None:
    """Return the first hard limit that *wanted* would exceed; None if all of it fits. *credit* is
    the part of it that is reserved already."""
    for line in lines:
        more = wanted.get(line.dimension, 0) - (credit or {}).get(line.dimension, 0)
        if line.hard is not None and more > 0 and line.used + line.reserved + more > line.hard:
            return _breach(line, budgets, wanted[line.dimension])
    return None


def excess(lines: Sequence[BudgetLine], budgets: Mapping[str, Budget], now: int) -> Breach | None:
    """Return the first hard limit that is exceeded already. A line whose reset is due does not
    count as exceeded."""
    for line in lines:
        if line.hard is not None and line.used > line.hard and not is_due(line, now):
            return _breach(line, budgets, 0)
    return None


def exhausted(
    lines: Sequence[BudgetLine], budgets: Mapping[str, Budget], now: int
) -> Breach | None:
    """Return the first hard limit that is used up; None if every line has room. A line whose reset
    is due has room, and so has a limit of zero from which nothing was spent: work that does not
    spend may go on."""
    for line in lines:
        is_used_up = line.hard is not None and 0 < line.used >= line.hard
        if is_used_up and not is_due(line, now):
            return _breach(line, budgets, 0)
    return None


def crossed(lines: Sequence[BudgetLine], spent: Mapping[str, int]) -> list[BudgetLine]:
    """Return the lines whose soft limit was exceeded by *spent*, which ``used`` includes."""
    return [
        line
        for line in lines
        if line.soft is not None and line.used > line.soft >= line.used - spent[line.dimension]
    ]


def over_soft(lines: Sequence[BudgetLine], spent: Mapping[str, int]) -> list[SoftBreach]:
    """Return the soft limits that are exceeded, of the dimensions in which something was *spent*;
    ``used`` includes it."""
    return [
        SoftBreach(line.budget, line.dimension, line.used, line.soft)
        for line in lines
        if line.soft is not None and line.used > line.soft and spent.get(line.dimension)
    ]


def refundable(
    lines: Sequence[BudgetLine], spent: Mapping[str, int], budgets: Mapping[str, Budget], since: int
) -> dict[tuple[str, str], int]:
    """Return how much of the amounts that a run has *spent* is given back, by budget and dimension.
    A budget that was reset after *since*, when the run was created, gets nothing back: part of the
    spending was reset with it, and the rest would make room that other runs have used."""
    refunds: dict[tuple[str, str], int] = {}
    for line in lines:
        budget = budgets.get(line.budget)
        if budget is None or (budget.last_reset_at is not None and budget.last_reset_at >= since):
            continue
        amount = min(spent.get(line.dimension, 0), line.used)
        if amount > 0:
            refunds[line.budget, line.dimension] = amount
    return refunds


def is_due(line: BudgetLine | Budget, now: int) -> bool:
    """Return whether the reset of a budget, or of a budget line, is due."""
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
    """Return the facts of a breach for an error, with amounts as text for people."""
    facts: dict[str, object] = {
        "budget": breach.budget,
        "dimension": breach.dimension,
        "used": show(breach.used),
    }
    if breach.reserved:
        facts["reserved"] = show(breach.reserved)
    if breach.wanted:
        facts["wanted"] = show(breach.wanted)
    facts["limit"] = show(breach.limit)
    return facts


def breach_error(breach: Breach, wanted: Mapping[str, int]) -> BudgetExceeded:
    """Return the error for a request of *wanted* that this breach refuses."""
    error = BudgetExceeded(**facts_of(breach))
    error.breach = breach
    error.wanted = dict(wanted)
    return error


def sum_amounts(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the sums, by dimension."""
    sums: dict[str, int] = {}
    for part in parts:
        for name, amount in part.items():
            sums[name] = sums.get(name, 0) + amount
    return sums


def is_raised(old: Mapping[str, int | None], new: Mapping[str, int | None]) -> bool:
    """Return whether any of the *new* limits is higher than the *old* one."""
    return any(_is_higher(limit, old.get(name, 0)) for name, limit in new.items())


def _is_higher(new: int | None, old: int | None) -> bool:
    """Return whether a limit is higher than the old one; None is no limit."""
    return old is not None and (new is None or new > old)


# Resetting


def checked_reset(reset: object, zone: object) -> tuple[str | None, str]:
    """Return the reset rule and the time zone of a budget as they are stored: None, a calendar
    word, or an interval in microseconds. Raises BadOption, BadDuration."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    why = "it must be the name of a time zone, such as Europe/Berlin"
    if not isinstance(zone, str):
        raise BadOption(option="zone", value=zone, why=why)
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadOption(option="zone", value=zone, why=why) from None
    if reset is None or is_one_of(reset, CALENDAR):
        return (None if reset is None else str(reset)), str(zone)
    length = duration.parse(reset)  # type: ignore[arg-type]
    if length < UNIT:
        raise BadOption(
            option="reset",
            value=reset,
            why="it must be hour, day, week, month, or a duration of at least a second",
        )
    return str(length), str(zone)


def next_reset(resets: str | None, zone: str, now: int, since: int) -> int | None:
    """Return when a budget is reset next: the first instant of its rule after *now*, in
    microseconds since 1970. An interval counts from *since*."""
    if resets is None:
        return None
    if resets not in CALENDAR:
        length = int(resets)
        return since + (max(now - since, 0) // length + 1) * length
    from zoneinfo import ZoneInfo

    utc_now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=now)
    local_now = utc_now.astimezone(ZoneInfo(zone))
    if resets == "hour":
        # In elapsed time: an hour has 3600 seconds, also when the clocks of the zone change.
        start = now - (local_now.minute * 60 + local_now.second) * UNIT - local_now.microsecond
        return start + 3600 * UNIT
    midnight = local_now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if resets == "day":
        reset = midnight + timedelta(days=1)
    elif resets == "week":
        reset = midnight + timedelta(days=7 - midnight.weekday())
    else:
        # 32 days after the first of a month lie in the next month.
        reset = (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
    return int(reset.timestamp()) * UNIT


def is_reset_rule(resets: str) -> bool:
    """Return whether a stored text is a reset rule: a calendar period, or an interval."""
    if resets in CALENDAR:
        return True
    return resets.isascii() and resets.isdigit() and len(resets) < 20 and int(resets) >= UNIT


def show_reset(resets: str | None, zone: str) -> str | None:
    """Return the reset rule of a budget as text for people."""
    if resets is None:
        return None
    if resets in CALENDAR:
        if zone == "UTC":
            return resets
        return f"{resets} ({zone})"
    return duration.show(int(resets))


def as_wait(breach: Breach, step: str) -> dict[str, Any]:
    """Return the wait of a run whose step is blocked by a breach, as it is stored."""
    return {
        "kind": WaitKind.BUDGET,
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
    """Return the names of the budgets that these waits are for."""
    return {str(wait.get("budget")) for wait in waits if wait.get("kind") == "budget"}


# The budgets of a run


def read_option(option: object) -> tuple[tuple[str, ...], Limits | None]:
    """Return the names of shared budgets and the limits of the run's own tree, from the option
    ``budget`` of a start: a name, limits, or a list of these. Raises BadOption."""
    if option is None:
        return (), None
    names: list[str] = []
    limits: Limits | None = None
    for entry in option if isinstance(option, list | tuple) else [option]:
        if isinstance(entry, Mapping):
            if limits is not None:
                raise BadOption(
                    option="budget", value=entry, why="a tree of runs has only one set of limits"
                )
            limits = limits_from(
                {name: value for name, value in entry.items() if name not in _LIMIT_OPTIONS},
                **_limit_options(entry),
            )
        else:
            names.append(_shared_name(entry))
    return tuple(dict.fromkeys(names)), limits


def _shared_name(name: object) -> str:
    """Return the name of a shared budget that a start draws on. Raises BadOption for the budget of
    a tree: only the runs of that tree draw on it."""
    budget = name_of(name)
    if budget.startswith(TREE):
        raise BadOption(
            option="budget",
            value=name,
            why="only the runs of a tree draw on its budget: name a shared budget",
        )
    return budget


_LIMIT_OPTIONS = ("on_breach", "soft")


def _limit_options(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in _LIMIT_OPTIONS if name in entry}


def budgets_of_start(
    option: object, run_id: str, inherited: Sequence[str] = ()
) -> tuple[tuple[str, ...], Limits | None]:
    """Return the budgets of a new run, and the limits of the budget of its own tree if it has one.
    Its budgets are the *inherited* ones of its parent, the ones that *option* names, and the one of
    its own tree."""
    names, limits = read_option(option)
    own = () if limits is None else (f"{TREE}{run_id}",)
    return tuple(dict.fromkeys([*inherited, *names, *own])), limits
