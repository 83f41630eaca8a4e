"""Reading texts: parse and check a `.wf` text, compared with Python's parser on the same number of
lines in the same process. The best of several turns counts, because both are short."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable

from bench.place import Place, check
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "wf_parse",
    "lines of a text workflow that are parsed and checked",
    "rate",
    "lines/s",
    size={"n": 10_000, "turns": 7},
    targets=(Target("sqlite", "ast_ratio", 1.0, at_most=True),),
)


def holdfast(place: Place) -> dict[str, float]:
    from holdfast import wf
    from holdfast.authoring.wf.check.folder import FolderSurroundings

    text = "workflow a {\n" + "call x { retries = 2 }\n" * place.n + "}\n"
    code = "x(retries=2)\n" * place.n

    def read() -> None:
        document = wf.parse(text)
        check(len(document.body), place.n)
        check(len(wf.check(document, FolderSurroundings())), 0)

    def parse() -> None:
        ast.parse(code)

    turns: int = place.turns
    ours = min(_seconds(read) for _ in range(turns))
    theirs = min(_seconds(parse) for _ in range(turns))
    return {"rate": place.n / ours, "ast_ratio": ours / theirs}


def _seconds(function: Callable[[], None]) -> float:
    began = time.process_time()
    function()
    return time.process_time() - began
