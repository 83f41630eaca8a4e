import pytest
from examples.managed_flow.workflow import ask, begin, main, receive, take_turn

from holdfast.errors import FlowChanged


def test_a_flow_collects_the_offers_sleeps_on_them_and_takes_the_cheapest(holdfast_lab):
    engine = holdfast_lab.engine
    flow_id = begin(engine, "buy a press")
    take_turn(engine, flow_id)
    for vendor, price in (("south", 700), ("north", 900)):
        assert receive(engine, flow_id, vendor, price)
        take_turn(engine, flow_id)
    assert take_turn(engine, flow_id).status == "waiting"

    holdfast_lab.advance("2d")
    flow = take_turn(engine, flow_id)

    assert (flow.status, flow.state["winner"]) == ("finished", "south")
    assert {step.status for step in engine.flows.steps(flow_id)} == {"succeeded"}


def test_an_offer_that_is_not_awaited_changes_nothing(holdfast_lab):
    engine = holdfast_lab.engine
    flow_id = begin(engine, "buy a press")
    before = engine.flows.get(flow_id)

    assert not receive(engine, flow_id, "north", 900)
    assert engine.flows.get(flow_id).revision == before.revision


def test_of_two_drivers_with_the_same_view_one_is_refused(holdfast_lab):
    engine = holdfast_lab.engine
    flow = engine.flows.get(begin(engine, "buy a press"))
    ask(engine, flow)

    with pytest.raises(FlowChanged):
        ask(engine, flow)


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "flow.db"))

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "an offer is awaited: True"
    assert lines[2:4] == ["a driver with an old view is refused", "finished south"]
