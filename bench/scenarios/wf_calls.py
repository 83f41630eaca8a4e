"""Calls of a text: runs of a file of ten calls beside the same workflow in Python, and the number
of texts that they store."""

from __future__ import annotations

from typing import Any

from bench.place import Place, check
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "wf_calls",
    "runs of a text of ten calls, CPU beside the same workflow in Python",
    "python_ratio",
    "times Python",
    size={"n": 1000, "turns": 5},
    targets=tuple(
        target
        for store in ("sqlite", "postgres")
        for target in (
            Target(store, "python_ratio", 1.2, at_most=True),
            Target(store, "stored_texts", 1, at_most=True),
        )
    ),
)

STORED = "SELECT count(*) FROM holdfast.definition_content"


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours, texts
    from holdfast import Engine

    library = texts.library(1)
    with Engine(place.url, workflows=[library, texts.ten_calls]) as engine:

        def runs(workflow: Any) -> None:
            started = engine.start_many(workflow, [{}] * place.n)
            check(started[-1].result(timeout=120)["context"], "done")
            for run in started:
                run.result(timeout=120)

        runs(texts.ten_calls)
        figures = texts.by_turns(
            place,
            place.turns,
            lambda: runs(library["ten-texts"]),
            python=lambda: runs(texts.ten_calls),
        )
    figures["stored_texts"] = float(ours.counter(place, STORED)())
    return figures
