from examples.langgraph_agent.workflow import main, travel


def agree(lab, gate):
    lab.engine.gates.approve(gate, by="ann")


def test_the_agent_asks_before_it_books(holdfast_lab):
    run = holdfast_lab.start(travel, "somewhere dry")
    holdfast_lab.run_until_idle()
    [gate] = holdfast_lab.engine.gates.list(run=run.id)
    assert gate.prompt == "May travel_agent call book?"

    holdfast_lab.engine.gates.approve(gate.id, by="ann")

    assert "booked Malmo" in str(holdfast_lab.finish(run))


def test_without_an_answer_within_a_day_nothing_is_booked(holdfast_lab):
    assert "booked Malmo" not in str(holdfast_lab.run_to_end(travel, "somewhere dry"))


def test_a_crash_anywhere_changes_nothing(crash_everywhere):
    crash_everywhere(travel, "somewhere dry", people=[agree], doubles=1, zombies=False)


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "agent.db"))

    assert "booked Malmo" in capsys.readouterr().out
