"""Fan-out of a text: a foreach whose items are child runs beside ``map`` over as many child runs in
Python."""

from __future__ import annotations

from bench.place import Place, check
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "wf_fanout",
    "foreach over items, CPU beside map in Python",
    "python_ratio",
    "times Python",
    size={"n": 1000, "turns": 5},
    targets=tuple(
        Target(store, "python_ratio", 1.3, at_most=True) for store in ("sqlite", "postgres")
    ),
)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import texts
    from holdfast import Engine

    library = texts.library(place.n)
    with Engine(place.url, workflows=[library, texts.fanout, texts.child]) as engine:

        def text() -> None:
            run = engine.start(library["fanout-text"], {})
            items = run.result(timeout=120)["output"]["items"]
            check([item["status"] for item in items], ["completed"] * place.n)

        def python() -> None:
            run = engine.start(texts.fanout, {"count": place.n})
            check(run.result(timeout=120), place.n)

        return texts.by_turns(place, place.turns, text, python=python)
