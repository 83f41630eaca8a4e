import pytest

from holdfast import wf
from holdfast.authoring.wf.templates import generated
from holdfast.errors import BadWorkflow

TEMPLATE = """---
name: Nightly Audit
description: "Scan: and fix"
version: 1.2
target_types: [repo, ticket]
hints:
  - change the branch
  - "keep: the gate"
---
workflow nightly {
  call scan
}
"""


def load(tmp_path, text):
    path = tmp_path / "audit.wft"
    path.write_text(text, "utf-8")
    return wf.load(path)


def problems(tmp_path, text):
    with pytest.raises(BadWorkflow) as caught:
        load(tmp_path, text)
    return [(problem.code, problem.line, problem.column) for problem in caught.value.problems]


def test_a_template_has_front_matter_and_a_body(tmp_path):
    document = load(tmp_path, TEMPLATE)

    assert document.name == "nightly"
    assert document.template.name == "Nightly Audit"
    assert document.template.description == "Scan: and fix"
    assert document.template.version == "1.2"
    assert document.template.target_types == ("repo", "ticket")
    assert document.template.hints == ("change the branch", "keep: the gate")


def test_a_workflow_is_made_from_a_template(tmp_path):
    name, text = generated(load(tmp_path, TEMPLATE))

    assert name == "nightly-audit.wf"
    assert text.startswith("// from template Nightly Audit 1.2\nworkflow nightly {")
    assert wf.parse(text).name == "nightly"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEMPLATE.replace("call scan", "call"), ("syntax", 12, 1)),
        (TEMPLATE.replace("call scan", "call scan { retrys = 1 }"), ("unknown-option", 11, 15)),
        (TEMPLATE.replace("version:", "verson:"), ("unknown-option", 4, 1)),
        (TEMPLATE.replace("name: Nightly Audit\n", ""), ("missing-option", 1, 1)),
        (TEMPLATE.replace("[repo, ticket]", "[repo"), ("syntax", 5, 1)),
        ("workflow a { }", ("syntax", 1, 1)),
        ("---\nname: x\nworkflow a { }", ("syntax", 1, 1)),
        ("---\n- x\n---\nworkflow a { }", ("syntax", 1, 1)),
        ("---\nname: !!python/object:os.system x\n---\nworkflow a { }", ("syntax", 2, 1)),
        ("---\nname: " + "[" * 5000 + "\n---\nworkflow a { }", ("syntax", 2, 1)),
    ],
    ids=range(10),
)
def test_problems_of_templates_have_the_line_of_the_file(tmp_path, text, expected):
    assert problems(tmp_path, text)[0] == expected
