import pytest
from examples.vendor_quorum.workflow import main, procurement, withdrawn


@pytest.fixture(autouse=True)
def _nothing_withdrawn():
    withdrawn.clear()


def test_two_offers_are_enough_and_the_third_is_withdrawn(holdfast_lab):
    run = holdfast_lab.engine.graphs.start(
        procurement({"anna": 5, "ben": 3, "cleo": None}, parts=1), id="order"
    )
    holdfast_lab.run_until_idle()

    assert run.result() == {"buy": "ben", "part-0": "part 0 from ben"}
    assert {member.name: member.state for member in run.show().members}["cleo"] == "cancelled"
    assert withdrawn == ["cleo"]


def test_with_one_offer_the_buyer_waits_and_says_for_whom(holdfast_lab):
    run = holdfast_lab.engine.graphs.start(procurement({"anna": 5, "ben": None}, parts=1))
    holdfast_lab.run_until_idle()

    assert "1 more of: ben (started)" in holdfast_lab.engine.graphs.why(run.id, "buy").reason
    holdfast_lab.signal(f"{run.id}::ben", "offer", 7)
    holdfast_lab.run_until_idle()
    assert run.result()["buy"] == "anna"


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "quorum.db"))

    first, second = capsys.readouterr().out.splitlines()
    assert first == "{'buy': 'ben', 'part-0': 'part 0 from ben', 'part-1': 'part 1 from ben'}"
    assert "'cleo': 'cancelled'" in second
