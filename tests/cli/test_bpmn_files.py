"""``holdfast check`` and ``holdfast draw`` take models."""

from tests.bpmn.models import flows, process_of

GOOD = process_of('<startEvent id="s"/><userTask id="u" name="Look"/>' + flows("s u"))
BAD = process_of('<startEvent id="s"/>\n<serviceTask id="t"/>' + flows("s t", "t gone"))


def test_check_lists_every_problem_of_a_model(call, tmp_path):
    file = tmp_path / "bad.bpmn"
    file.write_bytes(BAD)

    done = call("check", str(file), code=1)

    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{file}:3: error t: the task names nothing to do (bind")
    assert lines[1].startswith(f"{file}:4: error f2: ")


def test_check_accepts_a_good_model_and_refuses_what_is_none(call, tmp_path):
    good, none = tmp_path / "good.bpmn", tmp_path / "none.bpmn"
    good.write_bytes(GOOD)
    none.write_bytes(b"<html")

    assert call("check", str(good)).stdout == f"{good}: ok\n"
    done = call("check", str(none), code=1)
    assert done.stdout.startswith(f"{none}:1: error: ") and "Traceback" not in done.stderr


def test_draw_prints_a_flowchart(call, tmp_path):
    file = tmp_path / "good.bpmn"
    file.write_bytes(GOOD)

    assert 'n_u["Look"]' in call("draw", str(file)).stdout
