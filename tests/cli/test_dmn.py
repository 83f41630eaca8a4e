"""``holdfast dmn``: a decision of a file, its value as JSON, and its errors as one line."""

import json

import pytest
from click.testing import CliRunner

from holdfast.cli.main import cli
from tests.dmn.files import decision, definitions, literal

SINCE = '<inputData id="since" name="since"><variable name="since" typeRef="date"/></inputData>'
DUE = decision("Due", literal('{on: since + duration("P1M"), n: amount * 2}'), "i:since")


@pytest.fixture
def call(tmp_path):
    (tmp_path / "due.dmn").write_bytes(definitions(SINCE, DUE))
    (tmp_path / "broken.dmn").write_bytes(definitions(decision("d", literal("1 +"))))
    (tmp_path / "text.dmn").write_text("not XML")

    def call(file, *words, code=0):
        invoked = CliRunner().invoke(cli, ["dmn", str(tmp_path / file), *words])
        assert invoked.exit_code == code, invoked.output
        return invoked.output if code == 0 else invoked.stderr

    return call


def test_a_decision_prints_its_value_as_json(call):
    printed = call("due.dmn", "Due", '{"since": "2026-01-31", "amount": 0.5}')

    assert json.loads(printed) == {"on": "2026-02-28", "n": 1}


def test_a_file_with_one_decision_needs_no_name(call):
    assert json.loads(call("due.dmn", "--json")) == {"on": None, "n": None}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("due.dmn", "Dew"), 1, "did you mean `Due`"),
        (("due.dmn", "Due", "[1]"), 2, "give a JSON object"),
        (("due.dmn", "Due", "{nonsense"), 2, "is not JSON"),
        (("broken.dmn", "d"), 1, "the expression ends too early"),
        (("text.dmn", "d"), 1, "not a model that can be read"),
        (("missing.dmn", "d"), 1, "No such file"),
    ],
)
def test_an_error_is_named_without_a_traceback(call, words, code, message):
    printed = call(*words, code=code)

    assert message in printed
    assert "Traceback" not in printed
