"""FEEL: expressions parsed and evaluated once each, and evaluated again. No database takes part."""

from __future__ import annotations

from bench.place import Place, check
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "feel",
    "FEEL expressions",
    "cpu_seconds",
    "s of CPU for 3,168 expressions",
    size={"n": 3168},
    targets=(Target("sqlite", "cpu_seconds", 0.5, at_most=True),),
)

TEXTS = (
    "{n} + price * (1 + tax / 100) - discount",
    'if amount > {n} then "big" else "small"',
    'amount between {n} and 2000 and status in ("open", "late")',
    "sum(orders[total > {n}].total)",
    "for o in orders return o.total * {n}",
    "some o in orders satisfies o.total = {n}",
    'date("2026-01-31") + duration("P{n}M") < @"2030-01-01"',
    'date and time("2026-07-01T10:00:00@Europe/Paris") - @"2026-01-01T00:00:00Z" > @"P{n}D"',
    "{{total: {n}, net: total / 1.2, rate: decimal(net / total, 2)}}.rate",
    'substring("abcdefghij", 1 + modulo({n}, 9)) + upper case(status)',
    'matches(status, "^o[a-z]{{1,3}}n$") or contains("{n}", "7")',
    "{n} in [1..100] and not(amount in (< {n}))",
    "sort([{n}, 3, 2, 1], function(a, b) a < b)[1]",
    "count(distinct values([{n}, 1, 1, 2])) + max({n}, 5)",
    "Monthly Fee * 12 + {n} instance of number",
    "[{n}..200] = [1..200] or null = missing",
)
VARIABLES = {
    "price": 12.5,
    "tax": 19,
    "discount": 3,
    "amount": 1200,
    "status": "open",
    "Monthly Fee": 10,
    "orders": [{"total": 5 * n, "id": n} for n in range(10)],
}


def holdfast(place: Place) -> dict[str, float]:
    from holdfast import dmn

    texts = [TEXTS[n % len(TEXTS)].format(n=n) for n in range(place.n)]
    with place.meter() as first:
        values = [dmn.feel(text, VARIABLES) for text in texts]
    known = texts[: min(place.n, 1000)]
    with place.meter() as again:
        check([dmn.feel(text, VARIABLES) for text in known], values[: len(known)])
    return {
        "cpu_seconds": first.cpu,
        "us_per_expression": first.cpu / len(texts) * 1e6,
        "us_per_known_expression": again.cpu / len(known) * 1e6,
    }
