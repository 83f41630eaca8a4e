"""A claim: a person fills in a form, a decision table says how to handle it, and a small claim is
paid at once. The model and the table are files that business people can change.

Run it with ``python workflow.py``."""

from pathlib import Path

from holdfast import Engine, bpmn

HERE = Path(__file__).parent


@bpmn.handler("pay-claim", retries=3)
def pay(amount: float) -> dict:
    return {"paid": amount}


def file_claim(engine: Engine, form: dict) -> dict:
    """Start a claim, fill in its form, and return its variables at the end."""
    run = engine.start("claim", {})
    run.wait_until("waiting", timeout="30s")
    engine.gates.approve(engine.gates.get(run.id), by="ann", form=form)
    return run.result(timeout="30s")


def main(path: str = "claims.db") -> None:
    with Engine(path) as engine:
        engine.models.deploy(HERE / "claim.bpmn", HERE / "claim.dmn")
        for amount in (400, 5000):
            print(file_claim(engine, {"amount": amount, "since": "2020-05-01"}))


if __name__ == "__main__":
    main()
