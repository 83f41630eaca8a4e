"""All problems of a model are found at once, each with its element, its line and a hint."""

import pytest

from holdfast import bpmn
from holdfast.authoring.bpmn.forms import schema_of
from holdfast.errors import ModelUnreadable
from tests.bpmn.models import model_of, process_of


def problems_of(body, severity="error"):
    problems = bpmn.load(process_of(body)).problems
    return {(problem.code, problem.element) for problem in problems if problem.severity == severity}


FLOW = '<sequenceFlow id="f" sourceRef="s" targetRef="{}"/>'


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<startEvent id="s"/>' + FLOW.format("nothing"), ("flow-to-nothing", "f")),
        ('<startEvent id="s"/><startEvent id="t"/>', ("two-starts", "t")),
        ('<startEvent id="s"/><serviceTask id="t"/>' + FLOW.format("t"), ("unbound-task", "t")),
        (
            '<startEvent id="s"/><scriptTask id="t" scriptFormat="groovy"><script>x</script>'
            "</scriptTask>" + FLOW.format("t"),
            ("unbound-script", "t"),
        ),
        (
            '<startEvent id="s"/><exclusiveGateway id="g"/><endEvent id="e"/>'
            + FLOW.format("g")
            + '<sequenceFlow id="a" sourceRef="g" targetRef="e"/>'
            '<sequenceFlow id="b" sourceRef="g" targetRef="e"/>',
            ("no-condition", "g"),
        ),
        (
            '<startEvent id="s"/><exclusiveGateway id="g" default="b"/><endEvent id="e"/>'
            + FLOW.format("g")
            + '<sequenceFlow id="a" sourceRef="g" targetRef="e">'
            "<conditionExpression>${x ==}</conditionExpression></sequenceFlow>"
            '<sequenceFlow id="b" sourceRef="g" targetRef="e"/>',
            ("bad-expression", "g"),
        ),
        (
            '<startEvent id="s"/><scriptTask id="t" scriptFormat="feel" camunda:resultVariable="x">'
            '<script>open("x")</script></scriptTask>' + FLOW.format("t"),
            ("bad-expression", "t"),
        ),
        (
            '<startEvent id="s"/><intermediateCatchEvent id="c"><timerEventDefinition>'
            "<timeDuration>PT</timeDuration></timerEventDefinition></intermediateCatchEvent>"
            + FLOW.format("c"),
            ("bad-time", "c"),
        ),
        ('<startEvent id="s"/><complexGateway id="g"/>' + FLOW.format("g"), ("unsupported", "g")),
        ('<startEvent id="s"/><callActivity id="c"/>' + FLOW.format("c"), ("no-call", "c")),
        (
            '<startEvent id="s"/><boundaryEvent id="b" attachedToRef="x">'
            "<messageEventDefinition/></boundaryEvent>",
            ("bad-attachment", "b"),
        ),
        (
            '<startEvent id="s"/><intermediateCatchEvent id="c"><messageEventDefinition/>'
            "</intermediateCatchEvent>" + FLOW.format("c"),
            ("no-message", "c"),
        ),
        (
            '<startEvent id="s"/><userTask id="t"><multiInstanceLoopCharacteristics/></userTask>'
            + FLOW.format("t"),
            ("no-cardinality", "t"),
        ),
        (
            '<startEvent id="s"/><userTask id="t"><standardLoopCharacteristics/></userTask>'
            + FLOW.format("t"),
            ("endless-loop", "t"),
        ),
        ('<startEvent id="s"/><startEvent id="s"/>', ("duplicate-id", "s")),
        (
            '<startEvent id="s"/><intermediateThrowEvent id="l"><linkEventDefinition name="x"/>'
            "</intermediateThrowEvent>" + FLOW.format("l"),
            ("no-link", "l"),
        ),
    ],
)
def test_a_problem_names_its_element(body, problem):
    assert problem in problems_of(body)


def test_all_problems_are_reported_at_once_with_their_lines():
    model = bpmn.load(
        process_of(
            '<startEvent id="s"/>\n<serviceTask id="a"/>\n<callActivity id="b"/>\n'
            '<sequenceFlow id="f" sourceRef="s" targetRef="gone"/>'
        )
    )

    errors = [problem for problem in model.problems if problem.severity == "error"]

    assert [(problem.element, problem.line) for problem in errors] == [("a", 3), ("b", 4), ("f", 5)]
    assert all(problem.hint and problem.process == "p" for problem in errors)


def test_a_known_handler_solves_the_problem_of_a_task():
    body = '<startEvent id="s"/><serviceTask id="known-here"/>'
    assert ("unbound-task", "known-here") in problems_of(body)

    @bpmn.handler("known-here")
    def work():
        """Do nothing."""

    assert problems_of(body) == set()


def test_a_process_that_is_not_declared_executable_is_a_warning():
    model = bpmn.load(model_of('<process id="p"><startEvent id="s"/></process>'))

    assert [problem.code for problem in model.problems] == ["not-executable"]


@pytest.mark.parametrize("source", ["/does/not/exist.bpmn", 7, None, b""])
def test_a_source_that_is_no_file_is_refused_by_name(source):
    with pytest.raises(ModelUnreadable):
        bpmn.load(source)


@pytest.mark.parametrize(
    "extension",
    [
        '<camunda:executionListener class="a.B" event="start"/>',
        '<camunda:taskListener class="a.B" event="create"/>',
        '<camunda:field name="a" stringValue="b"/>',
        '<zeebe:executionListeners><zeebe:executionListener type="a"/></zeebe:executionListeners>',
    ],
)
def test_an_extension_that_has_no_effect_is_a_warning(extension):
    task = f'<userTask id="t"><extensionElements>{extension}</extensionElements></userTask>'
    body = '<startEvent id="s"/>' + task + FLOW.format("t")

    assert problems_of(body) == set()
    assert problems_of(body, "warning") == {("ignored-extension", "t")}


def test_a_part_of_a_list_that_cannot_be_read_is_refused():
    task = (
        '<userTask id="t"><extensionElements><camunda:inputOutput><camunda:inputParameter name="x">'
        "<camunda:list><camunda:value>${1 +}</camunda:value></camunda:list>"
        "</camunda:inputParameter></camunda:inputOutput></extensionElements></userTask>"
    )

    assert problems_of('<startEvent id="s"/>' + task + FLOW.format("t")) == {
        ("bad-expression", "t")
    }


def _with_form(form):
    body = (
        '<extensionElements><zeebe:userTaskForm id="f1">' + form + "</zeebe:userTaskForm>"
        '</extensionElements><startEvent id="s"/><userTask id="u"><extensionElements>'
        '<zeebe:formDefinition formKey="camunda-forms:bpmn:f1"/></extensionElements></userTask>'
    )
    return body + FLOW.format("u")


@pytest.mark.parametrize(
    "form",
    [
        "{",
        "[]",
        '{"components": 5}',
        '{"components": [5]}',
        '{"components": [{"key": ["a"]}]}',
        '{"components": [{"components": [[]]}]}',
        "[" * 5000,
    ],
)
def test_a_form_that_cannot_be_read_is_a_problem(form):
    assert problems_of(_with_form(form)) == {("bad-form", "u")}


def test_the_form_of_the_modeller_becomes_a_schema():
    model = bpmn.load(
        process_of(
            _with_form(
                '{"components": [{"type": "group", "components": ['
                '{"key": "n", "type": "number", "validate": {"required": true, "min": 1}}]},'
                ' {"key": "t", "type": "textfield", "values": 5,'
                ' "validate": {"maxLength": 3, "minLength": "=x", "required": "=y"}},'
                ' {"key": "a", "type": ["b"], "values": [{"value": "x"}, 7], "validate": 1}]}'
            )
        )
    )

    assert schema_of(model.elements["u"].work) == {
        "type": "object",
        "properties": {
            "n": {"type": "number", "minimum": 1},
            "t": {"type": "string", "maxLength": 3},
            "a": {"enum": ["x"]},
        },
        "required": ["n"],
    }


def test_form_fields_have_typed_defaults_and_limits():
    fields = (
        '<camunda:formField id="n" type="long" defaultValue="3"><camunda:validation>'
        '<camunda:constraint name="min" config="abc"/><camunda:constraint name="max" config="9"/>'
        '</camunda:validation></camunda:formField><camunda:formField id="b" type="boolean"'
        ' defaultValue="true"/><camunda:formField id="x" type="long" defaultValue="${y}"/>'
        '<camunda:formField id="s" type="string" defaultValue="5"><camunda:validation>'
        '<camunda:constraint name="maxlength" config="4"/></camunda:validation>'
        "</camunda:formField>"
    )
    body = (
        '<startEvent id="s"/><userTask id="u"><extensionElements><camunda:formData>'
        f"{fields}</camunda:formData></extensionElements></userTask>{FLOW.format('u')}"
    )
    model = bpmn.load(process_of(body))

    assert problems_of(body) == set()
    assert ("bad-form", "u") in problems_of(body, "warning")
    assert schema_of(model.elements["u"].work) == {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "default": 3, "maximum": 9},
            "b": {"type": "boolean", "default": True},
            "x": {"type": "integer", "default": "${y}"},
            "s": {"type": "string", "default": "5", "maxLength": 4},
        },
    }
