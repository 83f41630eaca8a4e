"""Random models that are sound by construction: blocks with one way in and one way out, nested.

Every instance of such a model ends, whatever its variables are, once its tasks are completed and
its timers have fired.
"""

from __future__ import annotations

import itertools
import os

from hypothesis import strategies as st

from tests.bpmn.models import boundary, process_of, timer

EXAMPLES = int(os.environ.get("HOLDFAST_EXAMPLES", "25"))
"""How many random models a test tries."""

LEAVES = ("pass", "script", "work", "user", "timer", "deadline", "late", "many", "throws")


def blocks():
    """A strategy for blocks: names of leaves, and lists of blocks with the name of their kind."""
    return st.recursive(
        st.sampled_from(LEAVES),
        lambda inner: st.tuples(
            st.sampled_from(("sequence", "xor", "and", "or", "sub", "loop")),
            st.lists(inner, min_size=2, max_size=3),
        ),
        max_leaves=7,
    )


class Builder:
    """Writes the elements of blocks. Ids are numbered, with a prefix of their own per builder."""

    def __init__(self, prefix=""):
        self.prefix = prefix
        self.parts = []
        self.count = 0

    def id(self, name):
        self.count += 1
        return f"{self.prefix}{name}{self.count}"

    def element(self, tag, name, inner="", more=""):
        id = self.id(name)
        self.parts.append(f'<{tag} id="{id}"{more}>{inner}</{tag}>')
        return id

    def flow(self, source, target, condition=None):
        id = self.id("f")
        text = ""
        if condition is not None:
            text = f"<conditionExpression>${{{condition}}}</conditionExpression>"
        self.parts.append(
            f'<sequenceFlow id="{id}" sourceRef="{source}" targetRef="{target}">{text}'
            "</sequenceFlow>"
        )
        return id

    def block(self, block):
        """Write a block; return its first and its last element."""
        if isinstance(block, str):
            return getattr(self, f"leaf_{block}")()
        kind, inner = block
        return getattr(self, f"block_{kind}")(inner)

    def alone(self, tag, name, inner="", more=""):
        id = self.element(tag, name, inner, more)
        return id, id

    def leaf_pass(self):
        return self.alone("task", "t")

    def leaf_script(self):
        more = ' scriptFormat="feel" camunda:resultVariable="n"'
        return self.alone("scriptTask", "s", "<script>n + 1</script>", more)

    def leaf_work(self):
        return self.alone("serviceTask", "w", more=' camunda:topic="random-work"')

    def leaf_user(self):
        return self.alone("userTask", "u")

    def leaf_timer(self):
        return self.alone("intermediateCatchEvent", "c", timer("timeDuration", "PT1H"))

    def leaf_many(self):
        loop = "<loopCardinality>2</loopCardinality>"
        inner = f"<multiInstanceLoopCharacteristics>{loop}</multiInstanceLoopCharacteristics>"
        return self.alone("userTask", "m", inner)

    def leaf_throws(self):
        """A task that throws a BPMN error, which is caught; the two ways meet again."""
        host = self.element("serviceTask", "x", more=' camunda:topic="random-throw"')
        return self.caught(host, '<errorEventDefinition errorRef="E"/>', interrupting=True)

    def leaf_deadline(self):
        return self.caught(self.element("userTask", "d"), timer("timeDuration", "PT1H"), True)

    def leaf_late(self):
        """A task with a reminder, whose token ends by itself."""
        host = self.element("userTask", "l")
        event = self.id("b")
        self.parts.append(boundary(event, host, timer("timeDuration", "PT1H"), interrupting=False))
        self.flow(event, self.element("task", "r"))
        return host, host

    def caught(self, host, trigger, interrupting):
        event = self.id("b")
        self.parts.append(boundary(event, host, trigger, interrupting))
        end = self.element("exclusiveGateway", "g")
        self.flow(host, end)
        self.flow(event, end)
        return host, end

    def block_sequence(self, inner):
        ends = [self.block(each) for each in inner]
        for (_, before), (after, _) in itertools.pairwise(ends):
            self.flow(before, after)
        return ends[0][0], ends[-1][1]

    def split(self, tag, inner, conditions):
        first = self.element(tag, "g")
        last = self.element(tag, "g")
        for each, condition in zip(inner, conditions, strict=True):
            begin, end = self.block(each)
            self.flow(first, begin, condition)
            self.flow(end, last)
        return first, last

    def block_and(self, inner):
        return self.split("parallelGateway", inner, [None] * len(inner))

    def block_xor(self, inner):
        conditions = [f"n % {len(inner)} == {number}" for number in range(len(inner))]
        return self.split("exclusiveGateway", inner, conditions)

    def block_or(self, inner):
        conditions = ["n >= 0", *(f"n % 2 == {number % 2}" for number in range(1, len(inner)))]
        return self.split("inclusiveGateway", inner, conditions)

    def block_sub(self, inner):
        outer = self.parts
        self.parts = []
        start = self.element("startEvent", "s")
        begin, _ = self.block_sequence(inner)
        self.flow(start, begin)
        content = "".join(self.parts)
        self.parts = outer
        return self.alone("subProcess", "p", content)

    def block_loop(self, inner):
        """Run blocks, and once more if the counter of this loop says so."""
        name = f"k{self.count}"
        more = f' scriptFormat="feel" camunda:resultVariable="{name}"'
        count = f"<script>if {name} = null then 1 else {name} + 1</script>"
        first = self.element("exclusiveGateway", "g")
        begin, end = self.block_sequence(inner)
        counter = self.element("scriptTask", "s", count, more)
        last = self.id("g")
        self.flow(first, begin)
        self.flow(end, counter)
        self.flow(counter, last)
        back = self.flow(last, first, f"{name} &lt; 2")
        out = self.element("exclusiveGateway", "g")
        default = self.flow(last, out)
        self.parts.append(f'<exclusiveGateway id="{last}" default="{default}"/>')
        assert back
        return first, out


def body_of(block, prefix=""):
    """Return the elements of a process that consists of a block."""
    builder = Builder(prefix)
    begin, end = builder.block(block)
    start = builder.element("startEvent", "s")
    builder.flow(start, begin)
    builder.flow(end, builder.element("endEvent", "e"))
    return "".join(builder.parts)


def model_of_block(block, prefix="", id="random"):
    """Return the file of a process that consists of a block."""
    return process_of(body_of(block, prefix), id)


def renamed(body_graph, prefix):
    """Return the mapping from the elements of a graph without a prefix to those with one."""
    names = [node.id for node in body_graph.nodes.values()]
    names += [flow.id for node in body_graph.nodes.values() for flow in node.outgoing]
    return {name: f"{prefix}{name}" for name in names}
