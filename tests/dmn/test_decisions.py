"""Decisions: requirements, boxed expressions, knowledge models, services, types, imports, bad
files."""

import io
from datetime import UTC, date, datetime

import pytest

from holdfast import dmn
from holdfast.errors import (
    BadExpression,
    BadOption,
    DecisionNotFound,
    ModelRefused,
    ModelUnreadable,
)
from tests.dmn.files import decision, definitions, literal, table

INPUT = '<inputData id="{0}" name="{0}"><variable name="{0}" typeRef="{1}"/></inputData>'


def evaluate(name, variables, *elements, **options):
    model = dmn.load(definitions(*elements))
    assert [problem for problem in model.problems if problem.is_error] == []
    return model.evaluate(name, variables, **options)


def test_required_decisions_are_evaluated_first():
    result = evaluate(
        "Total Price",
        {"net": 100},
        INPUT.format("net", "number"),
        decision("Tax Rate", literal("if net > 50 then 0.2 else 0.1"), "i:net"),
        decision("Total Price", literal("net * (1 + Tax Rate)"), "i:net", "d:Tax-Rate"),
    )

    assert result == 120


def test_a_decision_is_found_by_name_or_id():
    model = dmn.load(definitions(decision("My Decision", literal("1"))))

    assert model.evaluate() == 1
    assert model.evaluate("My Decision") == 1
    assert model.evaluate("My-Decision") == 1
    assert model.decisions == ["My Decision"]
    assert model.ids == {"My-Decision": "My Decision"}
    with pytest.raises(DecisionNotFound, match="did you mean `My Decision`"):
        model.evaluate("My Decison")


def test_the_outputs_of_required_tables_are_seen_by_their_names():
    rules = [(["> 5"], ['"hot"']), (["<= 5"], ['"cold"'])]
    dishes = [(['"hot"'], ['"salad"']), (['"cold"'], ['"stew"'])]

    result = evaluate(
        "Dish",
        {"temperature": 3},
        decision("Season", table("UNIQUE", ["temperature"], ["season"], rules)),
        decision("Dish", table("UNIQUE", ["season"], ["dish"], dishes), "d:Season"),
    )

    assert result == "stew"


def test_a_chain_of_a_thousand_decisions_is_not_deep():
    chain = [decision("d0", literal("1"))]
    chain += [decision(f"d{n}", literal(f"d{n - 1} + 1"), f"d:d{n - 1}") for n in range(1, 1000)]

    assert evaluate("d999", {}, *chain) == 1000


@pytest.mark.parametrize(
    ("logic", "expected"),
    [
        (
            "<context><contextEntry><variable name='a'/>"
            + literal("x + 1")
            + "</contextEntry><contextEntry><variable name='b'/>"
            + literal("a * 2")
            + "</contextEntry></context>",
            {"a": 6, "b": 12},
        ),
        (
            "<context><contextEntry><variable name='a'/>"
            + literal("x + 1")
            + "</contextEntry><contextEntry>"
            + literal("a * 3")
            + "</contextEntry></context>",
            18,
        ),
        (f"<list>{literal('x')}{literal('2')}</list>", [5, 2]),
        (
            "<relation><column name='n'/><column name='m'/><row>"
            + literal("x")
            + literal('"a"')
            + "</row><row>"
            + literal("2")
            + literal('"b"')
            + "</row></relation>",
            [{"n": 5, "m": "a"}, {"n": 2, "m": "b"}],
        ),
        (
            f"<conditional><if>{literal('x > 3')}</if><then>{literal('1')}</then>"
            f"<else>{literal('2')}</else></conditional>",
            1,
        ),
        (
            f"<filter><in>{literal('[1, 7, 9]')}</in><match>{literal('item > x')}</match></filter>",
            [7, 9],
        ),
        (
            f"<for iteratorVariable='i'><in>{literal('[1, 2, 3]')}</in>"
            f"<return>{literal('i * x')}</return></for>",
            [5, 10, 15],
        ),
        (
            f"<every iteratorVariable='i'><in>{literal('[1, 2]')}</in>"
            f"<satisfies>{literal('i < x')}</satisfies></every>",
            True,
        ),
        (
            f"<some iteratorVariable='i'><in>{literal('[1, 2]')}</in>"
            f"<satisfies>{literal('i = x')}</satisfies></some>",
            False,
        ),
    ],
)
def test_a_boxed_expression_has_its_value(logic, expected):
    assert evaluate("d", {"x": 5}, decision("d", logic)) == expected


KNOWLEDGE = (
    '<businessKnowledgeModel id="k" name="monthly rate"><variable name="monthly rate"/>'
    '<encapsulatedLogic><formalParameter name="sum lent" typeRef="number"/>'
    '<formalParameter name="months" typeRef="number"/>' + literal("sum lent / months") + ""
    "</encapsulatedLogic></businessKnowledgeModel>"
)


def test_a_knowledge_model_is_called_by_an_expression_and_by_an_invocation():
    invocation = (
        f"<invocation>{literal('monthly rate')}"
        f'<binding><parameter name="sum lent"/>{literal("x")}</binding>'
        f'<binding><parameter name="months"/>{literal("12")}</binding></invocation>'
    )

    assert evaluate("d", {"x": 120}, KNOWLEDGE, decision("d", invocation, "k:k")) == 10
    call = decision(
        "d", literal("monthly rate(x, 6) + monthly rate(months: 6, sum lent: x)"), "k:k"
    )
    assert evaluate("d", {"x": 120}, KNOWLEDGE, call) == 40
    wrong = decision("d", literal('monthly rate("a", 6)'), "k:k")
    assert evaluate("d", {}, KNOWLEDGE, wrong) is None


def test_a_knowledge_model_may_call_itself_within_limits():
    knowledge = (
        '<businessKnowledgeModel id="f" name="f"><variable name="f"/><encapsulatedLogic>'
        '<formalParameter name="n"/>'
        + literal("if n < 2 then 1 else n * f(n - 1)")
        + "</encapsulatedLogic><knowledgeRequirement><requiredKnowledge href='#f'/>"
        "</knowledgeRequirement></businessKnowledgeModel>"
    )
    call = decision("d", literal("f(n)"), "k:f")

    assert evaluate("d", {"n": 10}, knowledge, call) == 3628800
    with pytest.raises(BadExpression, match="nested deeper"):
        evaluate("d", {"n": 1000}, knowledge, call)


def test_a_boxed_function_is_a_value():
    function = (
        "<context><contextEntry><variable name='twice'/><functionDefinition>"
        "<formalParameter name='n'/>" + literal("n * 2") + "</functionDefinition></contextEntry>"
        "<contextEntry>" + literal("twice(x) + twice(1)") + "</contextEntry></context>"
    )

    assert evaluate("d", {"x": 5}, decision("d", function)) == 12


SERVICE = (
    '<decisionService id="s" name="Pricing"><variable name="Pricing"/>'
    '<outputDecision href="#price"/><encapsulatedDecision href="#rate"/><inputData href="#n"/>'
    "</decisionService>"
)


def test_a_service_is_evaluated_and_called():
    elements = (
        INPUT.format("n", "number"),
        decision("rate", literal("n / 10"), "i:n"),
        decision("price", literal("n + rate"), "i:n", "d:rate"),
        SERVICE,
        decision("caller", literal("Pricing(20) + Pricing(n: 10)"), "k:s"),
    )

    assert evaluate("Pricing", {"n": 100}, *elements) == 110
    assert evaluate("caller", {}, *elements) == 33


TYPES = """
<itemDefinition name="tColor"><typeRef>string</typeRef>
  <allowedValues><text>"red", "blue"</text></allowedValues></itemDefinition>
<itemDefinition name="tColors" isCollection="true"><typeRef>tColor</typeRef></itemDefinition>
<itemDefinition name="tPerson">
  <itemComponent name="name"><typeRef>string</typeRef></itemComponent>
  <itemComponent name="born"><typeRef>date</typeRef></itemComponent>
</itemDefinition>
"""


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("number", 5, 5),
        ("number", "5", None),
        ("number", [5], 5),
        ("string", "a", "a"),
        ("date", "2026-01-01", date(2026, 1, 1)),
        ("date", "nonsense", None),
        ("tColor", "red", "red"),
        ("tColor", "green", None),
        ("tColors", ["red", "blue"], ["red", "blue"]),
        ("tColors", "red", ["red"]),
        ("tColors", ["red", "green"], None),
        (
            "tPerson",
            {"name": "Ann", "born": "2000-05-01"},
            {"name": "Ann", "born": date(2000, 5, 1)},
        ),
        ("tPerson", {"name": "Ann"}, None),
        ("tPerson", {"name": 5, "born": None}, None),
    ],
)
def test_a_value_conforms_to_its_type_or_is_null(type_name, value, expected):
    elements = (TYPES, INPUT.format("v", type_name), decision("d", literal("v"), "i:v"))

    assert evaluate("d", {"v": value}, *elements) == expected


def test_declared_types_are_known_to_instance_of():
    elements = (TYPES, decision("d", literal('["red", v] instance of tColors')))

    assert evaluate("d", {"v": "blue"}, *elements) is True
    assert evaluate("d", {"v": "green"}, *elements) is False


def test_the_result_of_a_decision_is_converted_to_its_type():
    assert evaluate("d", {}, decision("d", literal("[10]"), type_name="number")) == 10
    assert evaluate("d", {}, decision("d", literal('"a"'), type_name="number")) is None


IMPORTED = definitions(
    INPUT.format("base", "number"),
    decision("Doubled", literal("base * 2"), "i:base"),
    '<businessKnowledgeModel id="inc" name="inc"><variable name="inc"/><encapsulatedLogic>'
    '<formalParameter name="n"/>' + literal("n + 1") + "</encapsulatedLogic>"
    "</businessKnowledgeModel>",
    '<itemDefinition name="tSmall"><typeRef>number</typeRef>'
    "<allowedValues><text>&lt; 10</text></allowedValues></itemDefinition>",
    namespace="library",
)
IMPORTING = definitions(
    '<import name="lib" namespace="library" locationURI="library.dmn"'
    ' importType="https://www.omg.org/spec/DMN/20230324/MODEL/"/>',
    decision("d", literal("lib.inc(lib.Doubled)"), "d:library#Doubled", "k:library#inc"),
    decision("small", literal("5 instance of lib.tSmall and not(50 instance of lib.tSmall)")),
)


def test_imports_are_found_beside_the_file_and_among_the_arguments(tmp_path):
    (tmp_path / "library.dmn").write_bytes(IMPORTED)
    (tmp_path / "main.dmn").write_bytes(IMPORTING)

    assert dmn.load(tmp_path / "main.dmn").evaluate("d", {"base": 4}) == 9
    assert dmn.load(IMPORTING, imports=[IMPORTED]).evaluate("d", {"base": 4}) == 9
    assert dmn.load(IMPORTING, imports=[io.BytesIO(IMPORTED)]).evaluate("small") is True


def test_a_missing_import_is_a_problem_of_the_file():
    model = dmn.load(IMPORTING)

    assert {problem.code for problem in model.problems} == {"unknown-import", "unknown-element"}
    with pytest.raises(ModelRefused):
        model.evaluate("d", {"base": 4})


def test_a_cycle_and_a_missing_element_are_problems():
    model = dmn.load(
        definitions(
            decision("a", literal("b"), "d:b"),
            decision("b", literal("a"), "d:a"),
            decision("c", literal("1"), "d:missing"),
        )
    )

    assert sorted(problem.code for problem in model.problems) == ["cycle", "unknown-element"]


def test_the_time_of_a_decision_can_be_set():
    model = dmn.load(definitions(decision("d", literal("today()"))))

    assert model.evaluate(now=datetime(2026, 5, 6, tzinfo=UTC)) == date(2026, 5, 6)
    assert isinstance(model.evaluate(), date)


BOMB = b'<!DOCTYPE d [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>' + definitions()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not XML",
        definitions(decision("d", literal("1")))[:80],
        BOMB,
        b'<!DOCTYPE d SYSTEM "http://localhost/x.dtd">' + definitions(),
        b'<i:include xmlns:i="http://www.w3.org/2001/XInclude" href="file:///etc/passwd"/>',
        b"<other/>",
        b"<a>" * 300 + b"</a>" * 300,
        b"\xff\xfe\x00\x01",
        b'<?xml version="1.0" encoding="nonsense"?><definitions/>',
    ],
)
def test_a_file_that_is_not_dmn_is_refused_by_name(data):
    with pytest.raises(ModelUnreadable) as caught:
        dmn.load(data)

    assert caught.value.facts["why"]


def test_wrong_arguments_are_refused_by_name(tmp_path):
    model = dmn.load(definitions(decision("d", literal("x"))))

    with pytest.raises(ModelUnreadable, match=r"nothing\.dmn"):
        dmn.load(tmp_path / "nothing.dmn")
    with pytest.raises(BadOption):
        dmn.load(5)
    with pytest.raises(BadOption):
        model.evaluate("d", [1])
    itself = []
    itself.append(itself)
    for name in ("x", "unused"):
        with pytest.raises(BadExpression, match="holds a object"):
            model.evaluate("d", {name: object()})
        with pytest.raises(BadExpression, match="contains itself"):
            model.evaluate("d", {name: itself})


def test_files_of_camunda_are_read():
    data = (
        b'<definitions xmlns="http://www.omg.org/spec/DMN/20151101/dmn.xsd"'
        b' xmlns:camunda="http://camunda.org/schema/1.0/dmn" id="d" name="n" namespace="c">'
        b'<decision id="dish" name="Dish"><decisionTable id="t">'
        b'<input id="i" camunda:inputVariable="guests">'
        b'<inputExpression typeRef="integer"><text>count</text></inputExpression></input>'
        b'<output id="o" name="dish" typeRef="string"/><rule id="r"><inputEntry id="e">'
        b"<text>guests &gt; 3 and ? &lt; 9</text></inputEntry>"
        b'<outputEntry id="f"><text>"stew"</text></outputEntry></rule>'
        b"</decisionTable></decision></definitions>"
    )

    assert dmn.load(data).evaluate("dish", {"count": 5}) == "stew"
