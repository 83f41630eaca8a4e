"""A managed flow: a program, such as an agent, decides what comes next, and Holdfast keeps the
state, the waits and the audit trail.

It shows `engine.flows`: a goal with its state, a wait for an event from outside, a wait for a time,
steps that are done elsewhere, a revision that refuses a driver with an old view, and the audit
trail. The driver keeps nothing in memory between two turns, so each turn can be another process.

    python examples/managed_flow/workflow.py
"""

from __future__ import annotations

import sys

from holdfast import Engine
from holdfast.errors import FlowChanged
from holdfast.views.flows import FlowView

OWNER = "agent:kate"
VENDORS = ("north", "south")
PATIENCE = "2d"


def begin(engine: Engine, goal: str) -> str:
    """Create the flow of a purchase and return its id."""
    flow = engine.flows.create(
        "purchase", goal, owner=OWNER, current_step="ask", state={"offers": {}}, start=True
    )
    return flow.id


def take_turn(engine: Engine, flow_id: str) -> FlowView:
    """Read where the flow stands, and do what comes next."""
    flow = engine.flows.get(flow_id, owner=OWNER)
    if flow.status != "running":
        return flow
    if flow.current_step == "ask":
        return ask(engine, flow)
    if flow.current_step == "collect":
        return collect(engine, flow)
    return decide(engine, flow)


def ask(engine: Engine, flow: FlowView) -> FlowView:
    """Ask every vendor, and wait for the first offer."""
    # With the revision, a second driver that has read the same state is refused.
    engine.flows.advance(flow.id, {}, current_step="collect", revision=flow.revision)
    for vendor in VENDORS:
        engine.flows.observe(flow.id, f"mail-{vendor}", f"ask {vendor}", "running")
    return engine.flows.wait(flow.id, topic="offer", correlation=flow.id)


def collect(engine: Engine, flow: FlowView) -> FlowView:
    """Record an offer that has arrived; wait for the next one, or until the decision is due."""
    offer = flow.state["resume_event"]
    offers = {**flow.state["offers"], offer["vendor"]: offer["price"]}
    engine.flows.observe(
        flow.id, f"mail-{offer['vendor']}", f"ask {offer['vendor']}", "succeeded", result=offer
    )
    is_complete = len(offers) == len(VENDORS)
    engine.flows.advance(
        flow.id, {"offers": offers}, current_step="decide" if is_complete else "collect"
    )
    if is_complete:
        return engine.flows.wait(flow.id, until=PATIENCE)
    return engine.flows.wait(flow.id, topic="offer", correlation=flow.id)


def decide(engine: Engine, flow: FlowView) -> FlowView:
    """Take the cheapest offer."""
    offers = flow.state["offers"]
    return engine.flows.finish(flow.id, {"winner": min(offers, key=offers.get)})


def receive(engine: Engine, flow_id: str, vendor: str, price: int) -> bool:
    """Deliver an offer that has arrived, and return whether the flow waited for it."""
    offer = {"vendor": vendor, "price": price}
    return engine.flows.deliver(flow_id, "offer", flow_id, offer) is not None


def main(database: str) -> None:
    """Drive a purchase up to its decision, which waits for a time; then decide at once."""
    with Engine(database, work=False) as engine:
        flow_id = begin(engine, "buy a press")
        before = engine.flows.get(flow_id)
        take_turn(engine, flow_id)
        print("an offer is awaited:", receive(engine, flow_id, "north", 900))
        take_turn(engine, flow_id)
        receive(engine, flow_id, "south", 700)
        take_turn(engine, flow_id)
        print(engine.flows.get(flow_id).status, "until the offers were slept on")

    with Engine(database, work=False) as engine:  # another process
        try:
            ask(engine, before)
        except FlowChanged:
            print("a driver with an old view is refused")
        engine.flows.resume(flow_id)
        flow = take_turn(engine, flow_id)
        print(flow.status, flow.state["winner"])
        print(" ".join(event.kind for event in reversed(engine.flows.events(flow_id))))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "flow.db")
