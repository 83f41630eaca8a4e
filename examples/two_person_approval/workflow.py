"""A payment that two people must approve, neither of whom may have requested it.

It shows a gate with a quorum, people who may not decide, a reminder, an escalation, a deadline, and
a decision that is bound to the data that people have seen. Stop the program at any time: the gate
stays open.

    python examples/two_person_approval/workflow.py              ask for a payment, or look at it
    python examples/two_person_approval/workflow.py approve bob  approve it as bob; then as carol
"""

from __future__ import annotations

import sys
import time

from holdfast import Engine, gate, step, workflow
from holdfast.errors import HoldfastError


@step(retries=5, delay="1s")
async def transfer(payment: dict) -> str:
    """Send the money."""
    print(f"sending {payment['amount']} to {payment['to']}")
    return f"sent {payment['amount']}"


@workflow
async def pay(payment: dict, asked_by: str) -> str:
    """Send money once two others have agreed; give up after three days."""
    answer = await gate(
        f"Send {payment['amount']} to {payment['to']}?",
        assignees=["ann", "bob", "carol"],
        exclude=[asked_by],
        quorum=2,
        data=payment,
        remind="1d",
        escalate={"after": "2d", "assignees": ["dora"]},
        timeout="3d",
        on_timeout="reject",
    )
    if not answer:
        return f"not sent: {answer.feedback or answer.reason}"
    return f"{await transfer(payment)}, approved by {' and '.join(one.by for one in answer.agreed)}"


def main(command: str = "ask", person: str = "ann", path: str = "approval.db") -> None:
    """Ask for a payment, approve or reject it, or look how it stands."""
    with Engine(path) as engine:
        run = engine.start(pay, {"to": "the printer", "amount": 120}, "ann", id="invoice-7")
        while run.status in ("pending", "running"):
            time.sleep(0.01)
        if command in ("approve", "reject"):
            asked = engine.gates.get(run.id)
            try:
                decided = engine.gates.decide(asked, command, by=person, expect=asked.hash)
                print(f"{person}: {command}; the gate is {decided.status}")
            except HoldfastError as error:
                print(error)
        print(engine.why(run.id).reason if engine.gates.list(run=run.id) else run.result())


if __name__ == "__main__":
    main(*sys.argv[1:])
