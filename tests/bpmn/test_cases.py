"""Every shared case, in an engine: on a file, with a worker that is killed after each operation,
and on PostgreSQL."""

from contextlib import closing

import pytest

from holdfast.testing.postgres import _WIPE
from tests.bpmn.cases import manifest, needs_cases
from tests.bpmn.driver import CaseDriver
from tests.bpmn.engine_world import EngineWorld
from tests.bpmn.test_machine_cases import all_handlers, files_of


@pytest.fixture(scope="module")
def lent(postgres_server):
    """One database for all cases of a process, because a new one takes longer than a case."""
    with postgres_server.lend() as url:
        yield url


@pytest.fixture
def database(lent, postgres_server):
    postgres_server.execute(_WIPE, lent)
    return lent


def carry_out(case, **options):
    files = files_of(case)
    with closing(EngineWorld(files, all_handlers(case, files), **options)) as world:
        CaseDriver(case, world).run()
        assert world.check() == []


@needs_cases
@pytest.mark.parametrize("case", manifest(), ids=lambda case: case["id"])
def test_a_case_in_a_file(case):
    carry_out(case)


@needs_cases
@pytest.mark.parametrize("case", manifest(), ids=lambda case: case["id"])
def test_a_case_whose_worker_is_killed_after_each_operation(case):
    carry_out(case, kills=True)


@needs_cases
@pytest.mark.parametrize("case", manifest(), ids=lambda case: case["id"])
def test_a_case_in_postgres(case, database):
    carry_out(case, path=database)
