"""Output: fifty runs that put out frames as fast as they can. The raw driver writes rows of the
same size, 500 per commit."""

from __future__ import annotations

import asyncio

from bench.place import Place, check
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "frames",
    "frames of 50 runs",
    "rate",
    "frames/s",
    size={"n": 60_000, "runs": 50},
    targets=tuple(Target(store, "rate", 10_000) for store in ("sqlite", "postgres")),
)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import AsyncEngine

    async def main() -> dict[str, float]:
        async with AsyncEngine(place.url) as engine:
            await (await engine.start(ours.speaker, 100)).result()
            each = place.n // place.runs
            with place.meter() as meter:
                runs = [await engine.start(ours.speaker, each) for _ in range(place.runs)]
                said = sum([await run.result() for run in runs])
            streams = [one for run in runs for one in await engine.streams.list(run.id)]
            check((said, sum(one.frames for one in streams)), (place.n, place.n))
            return place.per(meter, place.n, "frame")

    return asyncio.run(main())


def raw(place: Place) -> dict[str, float]:
    from bench.peers import raw as driver

    db = driver.begin(place, "run TEXT, seq INTEGER, data BLOB, PRIMARY KEY (run, seq)")
    with place.meter() as meter:
        for first in range(0, place.n, 500):
            rows = [
                (f"r{number % place.runs}", number, b'{"token":1}')
                for number in range(first, first + 500)
            ]
            driver.insert(place, db, rows)
    return place.per(meter, place.n, "frame")
