"""The token machine alone carries out every shared case."""

import pytest

from holdfast.authoring.bpmn.model import ACTIVITIES
from holdfast.authoring.bpmn.reading import read_model
from holdfast.authoring.bpmn.token_machine.snapshot import restore, snapshot_of
from tests.bpmn.cases import CASES, manifest, needs_cases
from tests.bpmn.driver import CaseDriver, handlers_of, idle, rewritten
from tests.bpmn.pure_world import PureWorld

AUTOMATIC = ("serviceTask", "scriptTask", "sendTask", "businessRuleTask")


def files_of(case):
    """Return the files of a case. In a frozen clock, a timer that is due at once must not fire."""
    frozen = any(step.get("op") == "freeze_clock" for step in case["steps"])
    if frozen:
        return [(CASES / file).read_bytes().replace(b"PT0S", b"PT1S") for file in case["files"]]
    return [rewritten(case, (CASES / file).read_text("utf-8")).encode() for file in case["files"]]


def all_handlers(case, files):
    """Return the handlers of a case, and one that does nothing for each other automatic task."""
    handlers = {}
    if not case.get("external_jobs"):
        for file in files:
            for element in read_model(file).elements.values():
                if element.tag in AUTOMATIC and element.tag in ACTIVITIES:
                    handlers[element.id] = idle
    return {**handlers, **handlers_of(case)}


@needs_cases
@pytest.mark.parametrize("case", manifest(), ids=lambda case: case["id"])
def test_the_machine_carries_out_a_case(case):
    files = files_of(case)

    CaseDriver(case, PureWorld(files, all_handlers(case, files))).run()


class RestoredWorld(PureWorld):
    """Replaces each machine by one that was restored from its snapshot, after each operation."""

    def settle(self):
        super().settle()
        for instance in self.instances.values():
            old = instance.machine.state
            if old.ending is not None:
                continue
            machine = self.machine(old.graph.id)
            restore(machine.state, snapshot_of(old, {}))
            machine.state.trace = old.trace
            machine.state.has_caller = old.has_caller
            instance.machine = machine


@needs_cases
@pytest.mark.parametrize("case", manifest(), ids=lambda case: case["id"])
def test_a_restored_machine_goes_on_as_the_original(case):
    files = files_of(case)

    CaseDriver(case, RestoredWorld(files, all_handlers(case, files))).run()
