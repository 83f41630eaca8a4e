"""Gates, killed before and after each commit that has to do with them, in a file and in
PostgreSQL."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from holdfast import compensate, first, gate, gather, sleep, step, sync, timeout, workflow
from holdfast.errors import GateExpired, GateRejected, GateWithdrawn, StepFailed
from holdfast.testing import crash_everywhere
from holdfast.testing.postgres import _WIPE
from holdfast.testing.recorder import RUN

world: Counter[str] = Counter()


@pytest.fixture(params=["sqlite", "postgres"])
def everywhere(request):
    if request.param == "sqlite":
        yield partial(crash_everywhere, setup=world.clear, doubles=3)
        return
    server = request.getfixturevalue("postgres_server")
    with server.lend() as url:
        clear = partial(server.execute, _WIPE, url)
        yield partial(
            crash_everywhere, setup=world.clear, doubles=0, zombies=False, database=url, clear=clear
        )


def decides(choice, by, **options):
    return lambda lab, gate: lab.engine.gates.decide(gate, choice, by=by, **options)


def gates_of(lab):
    return lab.engine.gates.list(run=RUN, status="any")


@step
async def ship(what: str) -> str:
    world[f"ship {what}"] += 1
    return what


@workflow
async def approval(x: int) -> list:
    before = await ship("first")
    answer = await gate(
        "Ship it?", options=["yes", "no"], assignees=["ann"], timeout="2d", data={"x": x}
    )
    after = await ship("second") if answer == "yes" else None
    return [before, answer, answer.by, answer.feedback, after]


@workflow
def approval_blocking(x: int) -> list:
    before = ship.sync("first")
    answer = sync.gate("Ship it?", assignees=["ann"], timeout="2d")
    after = ship.sync("second") if answer else None
    return [before, str(answer), after]


@workflow
async def two_people() -> list:
    answer = await gate("Four eyes?", assignees=["ann", "bob", "eve"], quorum=2)
    return [answer, sorted(decision.by for decision in answer.decisions)]


@workflow
async def two_in_a_row() -> list:
    first_answer = await gate("One?", assignees=["ann", "bob"])
    two = await gate("Two?", assignees=["ann", "bob"], exclude=[first_answer.by])
    return [first_answer.by, two.by]


@workflow(name="gate_too_late")
async def too_late() -> str:
    try:
        return await gate("Now?", timeout="1h")
    except GateExpired:
        return await ship("anyway")


@workflow
async def reminded() -> list:
    answer = await gate(
        "Still there?",
        assignees=["ann"],
        timeout="1d",
        remind="6h",
        on_timeout="reject",
        escalate={"after": "12h", "assignees": ["boss"]},
    )
    return [answer, answer.expired]


@workflow
async def race() -> str:
    async def asks() -> str:
        return await gate("Quick?")

    async def gives_up() -> str:
        await sleep("1h")
        return "nobody"

    winner = await first(asks(), gives_up())
    return await ship(winner)


@workflow(name="gates_side_by_side")
async def side_by_side() -> list:
    return list(await gather(gate("Left?", assignees=["ann"]), gate("Right?", assignees=["ann"])))


@workflow
async def rejected() -> str:
    compensate(ship, "back")
    await ship("out")
    return await gate("Which?", options=["small", "large"])


@workflow
async def hurried() -> str:
    try:
        async with timeout("1h"):
            return await gate("Quick?")
    except TimeoutError:
        return "too late"


@workflow
async def withdrawn() -> str:
    try:
        return await gate("Really?")
    except GateWithdrawn as error:
        return str(error.facts["reason"])


def test_a_decision(everywhere):
    def check(lab):
        assert [(open_gate.status, open_gate.choice) for open_gate in gates_of(lab)] == [
            ("approved", "yes")
        ]
        assert world["ship second"] >= 1

    report = everywhere(approval, 7, people=[decides("yes", "ann", feedback="fine")], check=check)

    assert report.boundaries >= 5


def test_a_decision_in_a_plain_function(everywhere):
    everywhere(approval_blocking, 7, people=[decides("reject", "ann")])


def test_two_people(everywhere):
    def check(lab):
        kinds = [(entry.kind, entry.person) for entry in lab.engine.gates.entries(gates_of(lab)[0])]
        assert kinds == [("decided", "ann"), ("decided", "bob"), ("decided", "eve")]

    people = [decides("approve", "ann"), decides("reject", "bob"), decides("approve", "eve")]
    everywhere(two_people, people=people, check=check)


def test_a_second_gate_of_the_same_name_has_its_own_answer(everywhere):
    everywhere(two_in_a_row, people=[decides("approve", "ann"), decides("approve", "bob")])


def test_a_deadline(everywhere):
    def check(lab):
        assert [open_gate.status for open_gate in gates_of(lab)] == ["expired"]

    everywhere(too_late, check=check)


def test_reminders_and_escalation_until_time_decides(everywhere):
    def check(lab):
        (gate,) = gates_of(lab)
        kinds = Counter(event.kind for event in lab.history(RUN))
        entries = Counter(entry.kind for entry in lab.engine.gates.entries(gate))
        assert (gate.status, gate.choice, gate.assignees) == ("expired", "reject", ["ann", "boss"])
        assert kinds["gate_reminded"] == entries["reminded"] == gate.reminded == 3
        assert kinds["gate_escalated"] == entries["escalated"] == gate.escalated == 1

    everywhere(reminded, check=check)


def test_whoever_it_is_escalated_to_decides(everywhere):
    def hops(lab, gate):
        lab.hop()

    everywhere(reminded, people=[hops, hops, decides("approve", "boss")], exact=False)


def test_a_race_withdraws_the_gate_that_lost(everywhere):
    def check(lab):
        assert [(open_gate.status, open_gate.reason) for open_gate in gates_of(lab)] == [
            ("withdrawn", "the run no longer waits for it")
        ]

    everywhere(race, check=check)


def test_a_gate_wins_a_race(everywhere):
    everywhere(race, people=[decides("approve", "ann")])


def test_the_end_of_a_scope_withdraws_its_gate(everywhere):
    def check(lab):
        assert [open_gate.status for open_gate in gates_of(lab)] == ["withdrawn"]

    everywhere(hurried, check=check)


def test_gates_side_by_side(everywhere):
    everywhere(side_by_side, people=[decides("approve", "ann"), decides("reject", "ann")])


def test_what_is_rejected_is_undone(everywhere):
    everywhere(rejected, people=[decides("reject", "ann", feedback="none of these")])


def test_a_cancelled_run_withdraws_its_gate(everywhere):
    def check(lab):
        assert [open_gate.status for open_gate in gates_of(lab)] == ["withdrawn"]
        assert [event.kind for event in lab.history(RUN)][-2:] == [
            "gate_withdrawn",
            "run_cancelled",
        ]

    everywhere(approval, 7, cancel_at="ship", check=check)


def test_a_person_withdraws_a_gate(everywhere):
    everywhere(
        withdrawn,
        people=[lambda lab, gate: lab.engine.gates.withdraw(gate, by="root", reason="not needed")],
    )


def test_a_delegation_and_a_reassignment(everywhere):
    people = [
        lambda lab, gate: lab.engine.gates.delegate(gate, "bob", by="ann"),
        lambda lab, gate: lab.engine.gates.reassign(gate, assignees=["carol"], by="root"),
        decides("yes", "carol"),
    ]
    everywhere(approval, 7, people=people)


def test_a_change_of_what_is_decided_on_lets_decisions_lapse(everywhere):
    people = [
        decides("approve", "ann"),
        lambda lab, gate: lab.engine.gates.update(gate, {"amount": 2}),
        decides("approve", "ann"),
        decides("approve", "bob"),
    ]
    everywhere(two_people, people=people)


def test_an_answer_by_link(everywhere):
    def clicks(lab, gate):
        lab.engine.gates.answer(lab.engine.gates.link(gate, "yes", by="ann"))

    everywhere(approval, 7, people=[clicks])


def test_errors_that_gates_raise_are_seen_by_steps_as_any_other():
    assert issubclass(GateExpired, TimeoutError)
    assert not issubclass(GateRejected, StepFailed)
