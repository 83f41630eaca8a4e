"""The TextMate grammar, applied to the first match of each of its patterns."""

import json
import re

import pytest

from holdfast.authoring.wf.cursor import NODE_KEYWORDS
from tests.wf.cases import ROOT

GRAMMAR = json.loads((ROOT / "docs" / "editors" / "wf.tmLanguage.json").read_text("utf-8"))
PARTS = GRAMMAR["repository"]


def patterns(part):
    for key in ("match", "begin", "end"):
        if key in part:
            yield part[key]
    for inner in part.get("patterns", []):
        yield from patterns(inner)


def test_every_pattern_compiles_and_every_part_is_included():
    included = json.dumps(GRAMMAR)

    for name, part in PARTS.items():
        assert f'"#{name}"' in included
        for pattern in patterns(part):
            re.compile(pattern)


@pytest.mark.parametrize(
    ("part", "text", "words"),
    [
        ("header", "workflow nightly-audit {", ["workflow", "nightly-audit"]),
        ("callWorkflow", "call workflow publish", ["call", "workflow", "publish"]),
        ("step", "script scan {", ["script", "scan"]),
        ("option", "retries = 2", ["retries", "="]),
        ("statement", "wait signal paid", ["wait", "signal", "paid"]),
        ("block", "while scan.dirty {", ["while"]),
        ("block", "parallel {", ["parallel"]),
    ],
)
def test_a_construct_is_recognised(part, text, words):
    match = re.search(PARTS[part]["match"], text)

    assert [group for group in match.groups() if group] == words


def test_every_keyword_of_a_node_is_coloured():
    text = " ".join(pattern for part in PARTS.values() for pattern in patterns(part))

    assert {word for word in NODE_KEYWORDS if not re.search(rf"\b{word}\b", text)} == set()


def test_a_name_that_looks_like_a_keyword_is_not_coloured():
    assert re.search(PARTS["block"]["match"], "scan.if { }") is None
    assert re.search(PARTS["block"]["match"], "do-it { }") is None
