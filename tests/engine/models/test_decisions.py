"""Deployed decisions: versions, `decide`, and business rule tasks of models."""

from __future__ import annotations

import pytest

from holdfast import Engine
from holdfast.errors import (
    BadOption,
    DecisionNotFound,
    ModelNotFound,
    ModelRefused,
    RulesOverlap,
)
from tests.dmn.files import decision, definitions, literal, table

RULES = [(["<= Limit"], ['"pay"']), (["> Limit"], ['"ask"'])]
BPMN = "http://www.omg.org/spec/BPMN/20100524/MODEL"
CAMUNDA = "http://camunda.org/schema/1.0/bpmn"


def claims(limit: int = 1000, rules=RULES) -> bytes:
    return definitions(
        decision("Limit", literal(str(limit))),
        decision("Claim Handling", table("UNIQUE", ["amount"], ["handling"], rules), "d:Limit"),
    )


def process(attributes: str) -> bytes:
    return (
        f'<definitions xmlns="{BPMN}" xmlns:camunda="{CAMUNDA}" targetNamespace="t">'
        '<process id="claim" isExecutable="true"><startEvent id="s"/>'
        f'<businessRuleTask id="rule" {attributes}/><endEvent id="e"/>'
        '<sequenceFlow id="f" sourceRef="s" targetRef="rule"/>'
        '<sequenceFlow id="g" sourceRef="rule" targetRef="e"/></process></definitions>'
    ).encode()


TASK = 'camunda:decisionRef="Claim-Handling" camunda:resultVariable="handling"'


def test_a_deployed_decision_has_versions(database):
    with Engine(database, work=False) as engine:
        first = engine.models.deploy(claims())
        again = engine.models.deploy(claims())
        second = engine.models.deploy(claims(limit=10))

        assert first.decisions == again.decisions
        assert first.decisions == {"Limit": 1, "Claim Handling": 1, "Claim-Handling": 1}
        assert second.decisions["Claim Handling"] == 2
        assert engine.models.decide("Claim Handling", {"amount": 500}) == "ask"
        assert engine.models.decide("Claim-Handling", {"amount": 500}, version=1) == "pay"
        engine.models.deprecate("Claim Handling", 2)
        assert engine.models.decide("Claim Handling", {"amount": 500}) == "pay"
        assert engine.models.get("Limit").kind == "dmn"
        assert "<definitions" in engine.models.get("Limit").xml
        assert engine.database.check() == []


def test_bad_requests_are_named_and_change_nothing(database):
    with Engine(database, work=False) as engine:
        overlapping = claims(rules=[(["> 5"], ["1"]), (["> 9"], ["2"])])
        with pytest.raises(ModelRefused):
            engine.models.deploy(definitions(decision("d", literal("1 +"))))
        assert engine.models.list() == []
        engine.models.deploy(overlapping)
        engine.models.deploy(process(TASK))

        with pytest.raises(ModelNotFound):
            engine.models.decide("Nothing", {})
        with pytest.raises(ModelNotFound):
            engine.models.decide("Claim Handling", {}, version=7)
        with pytest.raises(DecisionNotFound):
            engine.models.decide("claim", {})
        with pytest.raises(RulesOverlap):
            engine.models.decide("Claim Handling", {"amount": 10})
        with pytest.raises(BadOption):
            engine.models.decide("Claim Handling", [1])


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ("", "pay"),
        ('camunda:mapDecisionResult="singleEntry"', "pay"),
        ('camunda:mapDecisionResult="singleResult"', {"handling": "pay"}),
        ('camunda:mapDecisionResult="collectEntries"', ["pay"]),
        ('camunda:mapDecisionResult="resultList"', [{"handling": "pay"}]),
    ],
)
def test_a_business_rule_task_evaluates_the_decision(database, mapping, expected):
    with Engine(database) as engine:
        engine.models.deploy(claims(), process(f"{TASK} {mapping}"))

        run = engine.start("claim", {"amount": 500})

        assert run.result(timeout=20)["handling"] == expected


def test_a_decision_that_is_deployed_later_does_not_change_a_run(database):
    with Engine(database) as engine:
        engine.models.deploy(claims(), process(TASK))
        run = engine.start("claim", {"amount": 500})
        assert run.result(timeout=20)["handling"] == "pay"

        engine.models.deploy(claims(limit=10))

        assert run.result()["handling"] == "pay"
        assert engine.start("claim", {"amount": 500}).result(timeout=20)["handling"] == "ask"
