"""Models that the tests of the web UI deploy."""

from __future__ import annotations

from itertools import pairwise

HEAD = (
    '<definitions xmlns="http://www.omg.org/spec/BPMN/20100524/MODEL" id="d" targetNamespace="t">'
)

MODEL = f"""{HEAD}
<process id="releasing" isExecutable="true">
  <startEvent id="start"/>
  <userTask id="decide" name="Decide"/>
  <userTask id="check" name="Check"/>
  <endEvent id="done"/>
  <sequenceFlow id="a" sourceRef="start" targetRef="decide"/>
  <sequenceFlow id="b" sourceRef="decide" targetRef="check"/>
  <sequenceFlow id="c" sourceRef="check" targetRef="done"/>
</process></definitions>"""
"""Two decisions of people, one after the other."""


def _part(number: int, tasks: int) -> str:
    """Return a sub-process with tasks in a row."""
    ids = [f"t{number}_{place}" for place in range(tasks)]
    texts = [f'<userTask id="{each}" name="Work {number}.{i}"/>' for i, each in enumerate(ids)]
    flows = [
        f'<sequenceFlow id="f{source}" sourceRef="{source}" targetRef="{target}"/>'
        for source, target in pairwise(ids)
    ]
    return f'<subProcess id="p{number}" name="Part {number}">{"".join(texts + flows)}</subProcess>'


def _row(parts: int) -> str:
    ids = ["start", *(f"p{number}" for number in range(parts)), "done"]
    return "".join(
        f'<sequenceFlow id="o{source}" sourceRef="{source}" targetRef="{target}"/>'
        for source, target in pairwise(ids)
    )


LARGE = f"""{HEAD}
<process id="large" isExecutable="true"><startEvent id="start"/>
{"".join(_part(number, 60) for number in range(6))}
<endEvent id="done"/>{_row(6)}</process></definitions>"""
"""Six sub-processes with sixty tasks each."""
