"""An order as a BPMN model with a Saga: if the goods are sold out, the charge and the reservation
are undone, the last one first. Large orders wait for a manager.

    python -m examples.order_model.workflow
"""

from pathlib import Path

from holdfast import Engine, bpmn

MODEL = Path(__file__).with_name("order.bpmn")
ledger: list[str] = []
"""What the outside world has seen."""


@bpmn.handler("reserve-goods")
def reserve(item: str) -> dict:
    ledger.append(f"reserve {item}")
    return {"reservation": f"r-{item}"}


@bpmn.handler("release-goods", retries=10, delay="10ms")
def release(reservation: str) -> None:
    ledger.append(f"release {reservation}")


@bpmn.handler("charge-card", retries=3, delay="10ms")
def charge(amount: int, task: bpmn.Task) -> dict:
    ledger.append(f"charge {amount}")
    return {"payment": f"p-{amount}"}


@bpmn.handler("refund-card", retries=10, delay="10ms")
def refund(payment: str) -> None:
    ledger.append(f"refund {payment}")


@bpmn.handler("ship-order")
def ship(item: str) -> dict:
    if item == "moon rock":
        raise bpmn.BpmnError("sold-out", "no more moon rocks")
    ledger.append(f"ship {item}")
    return {"parcel": f"parcel with {item}"}


def main() -> None:
    with Engine("order_model.db") as engine:
        engine.models.deploy(MODEL)
        for item in ("book", "moon rock"):
            run = engine.start("order-model", {"item": item, "amount": 30})
            print(run.result(timeout="10s"))
        print(ledger)


if __name__ == "__main__":
    main()
