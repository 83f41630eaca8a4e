"""Hypothesis strategies for programs of the language, as texts."""

import os

from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("HOLDFAST_EXAMPLES", "25"))
"""The size of random tests."""

NAMES = st.sampled_from(["a", "b-c", "fix_it", "x1", "sleep", "wait", "emit", "use", "required"])
STEPS = st.sampled_from(["a", "b-c", "fix_it", "x1"])
TEXTS = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12).map(
    lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
)
NUMBERS = st.integers(0, 99).map(str)
BLANKS = st.sampled_from([" ", "  ", "\n", "\n\n\n", "\t", " // a note\n", "\n// line\n", "\r\n"])
CONDITIONS = st.one_of(
    st.tuples(STEPS, STEPS).map(".".join),
    st.sampled_from(['(a.output.n > 3 and "x" in ["x", "y"])', "(length(b-c.markers) == 0)"]),
)


def joined(*parts):
    """Join tokens with any blanks and comments."""
    return st.tuples(*[st.tuples(part, BLANKS) for part in parts]).map(
        lambda pairs: "".join(text + blank for text, blank in pairs)
    )


def word(text):
    return st.just(text)


def option(key, value):
    return joined(word(key), word("="), value)


def options(**values):
    """Return some of the options, in any order."""
    return st.lists(st.sampled_from(sorted(values)), unique=True, max_size=4).flatmap(
        lambda keys: st.tuples(
            *[option(key.rstrip("_").replace("__", "-"), values[key]) for key in keys]
        ).map(" ".join)
    )


LISTS = st.lists(st.one_of(TEXTS, NAMES), min_size=1, max_size=3).map(
    lambda items: f"[{', '.join(items)}]"
)
MAPS = st.lists(st.tuples(STEPS, TEXTS), max_size=3).map(
    lambda pairs: "{ " + " ".join(f"{key} = {value}" for key, value in pairs) + " }"
)
CALL_OPTIONS = options(
    retries=NUMBERS,
    on_fail=st.sampled_from(["continue", "rescue", '"agents/x.md"']),
    output=NAMES,
    with_=st.one_of(LISTS.filter(lambda text: '""' not in text), NAMES),
    timeout=st.sampled_from(['"20m"', "90", '"50ms"']),
    undo=STEPS,
    lane=STEPS,
)
CALLS = joined(
    word("call"), st.one_of(STEPS, word('"agents/x.md"')), word("{"), CALL_OPTIONS, word("}")
)
LEAVES = st.one_of(
    joined(word("call"), STEPS),
    CALLS,
    joined(
        word("call workflow"),
        STEPS,
        word("{"),
        options(retries=NUMBERS, on_fail=word("continue")),
        word("inputs {"),
        options(a=TEXTS, x1=NUMBERS),
        word("} }"),
    ),
    joined(word("script"), NAMES, word("{"), word('run = "x y"'), options(env=MAPS), word("}")),
    joined(
        word("gate"),
        STEPS,
        word("{"),
        options(prompt=TEXTS, options=st.one_of(LISTS.filter(lambda t: '""' not in t), MAPS)),
        word("}"),
    ),
    joined(word("gate quality_gate { source = a threshold = 5"), word("}")),
    joined(word("sleep"), word('"10m"')),
    joined(word("wait signal"), NAMES),
    joined(word("emit"), TEXTS),
    joined(
        word("foreach"),
        NAMES,
        word("{ over = x max_parallel = 2 workflow = a"),
        options(scope=MAPS, ordered=word("true")),
        word("}"),
    ),
)


def blocks(inner):
    body = st.lists(inner, max_size=3).map(" ".join)
    filled = st.lists(inner, min_size=1, max_size=3).map(" ".join)
    loop = word("max_iterations = 3")
    return st.one_of(
        joined(st.sampled_from(["if", "unless"]), CONDITIONS, word("{"), body, word("}")),
        joined(word("while"), CONDITIONS, word("{"), loop, body, word("}")),
        joined(word("do"), word("{"), loop, body, word("}"), word("while"), CONDITIONS),
        joined(word("do"), word("{"), options(output=NAMES), body, word("}"), LEAVES),
        joined(word("parallel"), word("{"), options(min_success=NUMBERS), filled, word("}")),
        joined(word("always"), word("{"), body, word("}")),
        joined(
            word("foreach f { over = x max_parallel = 1"), word("do"), word("{"), body, word("} }")
        ),
    )


NODES = st.recursive(LEAVES, blocks, max_leaves=8)
ITEMS = st.one_of(
    NODES,
    joined(
        word("meta"),
        word("{"),
        options(title=TEXTS, targets=LISTS.filter(lambda text: '""' not in text)),
        word("}"),
    ),
    joined(word("inputs {"), STEPS, word("required x boolean"), word("}")),
    joined(word("inputs {"), STEPS, word("default ="), TEXTS, word("}")),
    joined(word("outputs { v = a.field note ="), TEXTS, word("}")),
    word('budget { cost_usd = "5.00" }'),
    word('use "common/b.wf"'),
)
PROGRAMS = st.tuples(BLANKS, st.lists(ITEMS, max_size=6).map(" ".join), BLANKS).map(
    lambda parts: f"{parts[0]}workflow w {{{parts[2]}{parts[1]}}}{parts[0]}"
)
