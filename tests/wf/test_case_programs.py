"""The program cases on both databases, each with the operations that follow its end."""

from contextlib import closing

import pytest

from holdfast.testing import Lab
from tests.wf.case_driver import Program
from tests.wf.cases import ARE_THERE, manifest

pytestmark = pytest.mark.skipif(not ARE_THERE, reason="the cases are not there: set HOLDFAST_CASES")
CASES = manifest().get("programs", [])


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_program_does_what_is_expected(case, database, tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    program = Program(case, folder)
    with closing(Lab(database, workflows=[program.library])) as lab:
        run_id = program.start(lab).id
        program.check(lab, run_id, program.finish(lab, run_id))
        for operation in case.get("then", ()):
            run_id = program.operate(lab, run_id, operation)
            program.check(lab, run_id, program.finish(lab, run_id))
        program.check_all(lab, run_id)
