"""``holdfast check`` of DMN files: all problems with their lines."""

import json

import pytest
from click.testing import CliRunner

from holdfast.cli.main import cli
from tests.dmn.files import decision, definitions, literal, table


@pytest.fixture
def call(tmp_path):
    (tmp_path / "good.dmn").write_bytes(definitions(decision("d", literal("1"))))
    rules = [(["1 +"], ["2"]), (["1"], ["(2"])]
    broken = definitions(decision("d", table("UNIQUE", ["x"], ["o"], rules), "i:missing"))
    (tmp_path / "broken.dmn").write_bytes(broken)
    (tmp_path / "cut.dmn").write_bytes(broken[:100])

    def call(*files, code=0):
        invoked = CliRunner().invoke(cli, ["check", *(str(tmp_path / file) for file in files)])
        assert invoked.exit_code == code, invoked.output
        return invoked.output

    call.folder = tmp_path
    return call


def test_a_good_file_is_ok(call):
    assert "good.dmn: ok" in call("good.dmn")


def test_all_problems_of_a_file_are_listed(call):
    printed = call("broken.dmn", code=1)

    assert printed.count("broken.dmn:2:1: error:") == 3
    assert "[bad-expression]" in printed and "[unknown-element]" in printed


def test_a_file_that_is_not_dmn_is_a_problem_with_its_line(call):
    printed = call("cut.dmn", code=1)

    assert "cut.dmn:" in printed and "[unreadable]" in printed
    assert "Traceback" not in printed


def test_as_json_the_decisions_are_listed(call):
    words = ["--json", "check", str(call.folder / "good.dmn")]

    report = json.loads(CliRunner().invoke(cli, words).output)

    assert '"decisions": ["d"]' in json.dumps(report)
