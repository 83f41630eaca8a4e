from examples.openai_agents_agent.workflow import answer_wish, main


def test_the_agent_asks_before_it_books(holdfast_lab):
    run = holdfast_lab.start(answer_wish, "somewhere dry")
    holdfast_lab.run_until_idle()
    [gate] = holdfast_lab.engine.gates.list(run=run.id)
    assert gate.prompt == "May travel_agent call book?"

    holdfast_lab.engine.gates.approve(gate.id, by="ann")

    assert "booked Malmo" in str(holdfast_lab.finish(run))


def test_without_an_answer_within_a_day_nothing_is_booked(holdfast_lab):
    assert "booked Malmo" not in str(holdfast_lab.run_to_end(answer_wish, "somewhere dry"))


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "agent.db"))

    assert "booked Malmo" in capsys.readouterr().out
