"""Loops of a text: one run of many iterations beside the same loop in Python, and beside a loop of
a tenth of them."""

from __future__ import annotations

from bench.place import Place, check
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "wf_loop",
    "a loop of a text, CPU beside the same loop in Python",
    "python_ratio",
    "times Python",
    size={"n": 10_000, "turns": 3},
    rounds=1,
    timeout=900,
    targets=tuple(
        target
        for store in ("sqlite", "postgres")
        for target in (
            Target(store, "python_ratio", 1.2, at_most=True),
            Target(store, "tenths_ratio", 1.2, at_most=True),
        )
    ),
)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import texts
    from holdfast import Engine

    library = texts.library(place.n)
    short = texts.library(place.n // 10)
    with Engine(place.url, workflows=[library, texts.loop]) as engine:

        def text() -> None:
            run = engine.start(library["loop-text"], {})
            check(run.result(timeout=120)["markers"], ["more"])

        def python() -> None:
            run = engine.start(texts.loop, {"count": place.n})
            check(run.result(timeout=120), place.n)

        def tenths() -> None:
            for _ in range(10):
                run = engine.start(short["loop-text"], {})
                check(run.result(timeout=120)["markers"], ["more"])

        return texts.by_turns(place, place.turns, text, python=python, tenths=tenths)
