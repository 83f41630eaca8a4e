import pytest
from examples.claim_decision.workflow import HERE, main

from holdfast import Engine, dmn
from holdfast.errors import WrongAnswer


def test_a_small_claim_is_paid_and_a_large_one_is_referred(tmp_path, capsys):
    main(str(tmp_path / "claims.db"))

    small, large = capsys.readouterr().out.splitlines()
    assert "'handling': 'pay'" in small and "'paid': 400" in small
    assert "'handling': 'ask'" in large and "paid" not in large


def test_the_form_refuses_a_missing_field(tmp_path):
    with Engine(tmp_path / "claims.db") as engine:
        engine.models.deploy(HERE / "claim.bpmn", HERE / "claim.dmn")
        run = engine.start("claim", {})
        run.wait_until("waiting", timeout="30s")

        with pytest.raises(WrongAnswer, match="since"):
            engine.gates.approve(engine.gates.get(run.id), by="ann", form={"amount": 5})


@pytest.mark.parametrize(
    ("amount", "since", "handling"),
    [(1000, "2025-01-01", "pay"), (1001, "2023-12-31", "ask"), (1001, "2024-01-01", "inspect")],
)
def test_the_table_decides(amount, since, handling):
    claims = dmn.load(HERE / "claim.dmn")

    assert claims.evaluate("handling", {"amount": amount, "since": since}) == handling
