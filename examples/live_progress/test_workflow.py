from examples.live_progress import workflow as example
from examples.live_progress.workflow import live_answer, main

QUESTION = "where is it dry?"


def test_the_answer_is_shown_word_by_word(holdfast_lab):
    run = holdfast_lab.start(live_answer, QUESTION)

    assert holdfast_lab.finish(run) == "It is dry in Malmo ."
    tokens = [
        frame.value for frame in holdfast_lab.engine.streams.read(run.id) if frame.name == "token"
    ]
    assert tokens == ["It", "is", "dry", "in", "Malmo", "."]
    assert holdfast_lab.engine.streams.progress(run.id).percent == 100


def test_a_model_that_breaks_off_is_asked_again_and_its_words_are_superseded(
    holdfast_lab, monkeypatch
):
    asked = []

    def breaks_off(question):
        asked.append(question)
        yield "It"
        if len(asked) == 1:
            raise ConnectionError("gone")
        yield "rains."

    monkeypatch.setattr(example, "model", breaks_off)
    run = holdfast_lab.start(live_answer, QUESTION)

    assert holdfast_lab.finish(run) == "It rains."
    frames = holdfast_lab.engine.streams.read(run.id)
    valid = [
        frame.value for frame in frames if frame.name == "token" and frame.superseded_by is None
    ]
    assert valid == ["It", "rains."]


def test_a_crash_anywhere_changes_nothing(crash_everywhere):
    def judge(lab):
        (run,) = list(lab.engine.runs())
        assert lab.engine.streams.summary(run.id) == {"words": 6, "text": "It is dry in Malmo ."}

    crash_everywhere(live_answer, QUESTION, check=judge)


def test_the_program_runs(tmp_path, capsys):
    main(str(tmp_path / "live.db"))

    assert capsys.readouterr().out == "It is dry in Malmo . \nanswered 6\n1 to pay for\n"
