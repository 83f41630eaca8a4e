"""What cannot be stored is refused by name, on both stores alike, and nothing is written; no run is
stuck because of it."""

from __future__ import annotations

import logging

import pytest

from holdfast import Engine, gate, step, wait_signal, workflow
from holdfast.authoring.python import capture
from holdfast.budgets import reserve, spend
from holdfast.errors import BadOption, RunFailed, RunNotFound
from holdfast.streams import emit, progress, stream
from holdfast.testing import internals
from holdfast.waits import all_of, create_wait, matching, wait_for
from tests.engine.waiting import wait_for as wait_for_status

HALF = "\ud800"  # half of a character, as in names of files that are no Unicode
ASKED = {
    "prompt": lambda text: gate(f"Ship {text}?"),
    "option": lambda text: gate("Ship it?", options=[text]),
    "label": lambda text: gate("Ship it?", options={"yes": text}),
    "assignee": lambda text: gate("Ship it?", assignees=[text]),
    "nobody": lambda text: gate("Ship it?", assignees=[]),  # it would be open to anybody
    "nobody in no role": lambda text: gate("Ship it?", roles=[]),
    "signal": lambda text: wait_signal(f"paid{text}"),
    "condition": lambda text: wait_for(all_of(f"paid{text}")),
    "wait": lambda text: create_wait(text),
    "key": lambda text: spend(tokens=1, key=text),
    "too little": lambda text: spend(tokens="0.0000001"),
}
TOLD = {
    "frame": lambda text: emit(1, name=text),
    "frame without a name": lambda text: emit(1, name=""),
    "frame with a number": lambda text: emit(1, name=7),
    "message": lambda text: progress(5, text),
    "error": lambda text: stream().error(b"bytes"),
}


@workflow
async def odd_question(what: str, nul: bool) -> str:
    await ASKED[what]("\0" if nul else HALF)
    return "done"


@step
async def odd_output(what: str, nul: bool) -> None:
    TOLD[what]("\0" if nul else HALF)


@workflow
async def odd_outputs(what: str, nul: bool) -> None:
    await odd_output(what, nul)


@workflow
async def unpaid_question() -> None:
    await wait_signal("paid")


@pytest.mark.parametrize("nul", [True, False], ids=["nul", "half"])
def test_a_workflow_that_asks_with_what_cannot_be_stored_fails_by_name(engine, nul):
    for what in ASKED:
        run = engine.start(odd_question, what, nul)
        with pytest.raises(RunFailed) as failed:
            run.result(timeout=20)
        assert failed.value.facts["type"] in ("BadOption", "BadCondition"), what
        assert [event.kind for event in run.history()] == ["run_failed"]
    assert engine.gates.list(status="any") == [] and engine.waits.list() == []


@pytest.mark.parametrize("nul", [True, False], ids=["nul", "half"])
def test_a_step_that_puts_out_what_cannot_be_stored_fails_by_name(engine, nul):
    for what in TOLD:
        run = engine.start(odd_outputs, what, nul)
        with pytest.raises(RunFailed) as failed:
            run.result(timeout=20)
        assert failed.value.facts["type"] == "BadOption", what
        assert engine.streams.read(run.id) == []


def test_what_people_and_programs_say_is_checked_before_it_is_sent(idle):
    run = idle.start(unpaid_question)
    before = [event.kind for event in run.history()]
    for text in ("a\0", HALF):
        for call in (
            lambda text=text: run.signal(text),
            lambda text=text: run.signal("paid", key=text),
            lambda text=text: run.signal("paid", source=text),
            lambda text=text: idle.gates.list(mine=text),
            lambda text=text: idle.lanes.set(text, concurrency=1),
            lambda text=text: idle.lanes.set("mail", weights={text: 2}),
            lambda text=text: idle.retention.set(text, older_than="1d"),
            lambda text=text: idle.start(unpaid_question, tags={"shop": text}),
            lambda text=text: idle.start(unpaid_question, capabilities=[text]),
            lambda text=text: list(idle.events.read(tags={"shop": text})),
            lambda text=text: list(idle.events.read(workflow=text)),
            lambda text=text: idle.webhooks.set(
                "hook", "https://example.org/hook", secret=text * 20
            ),
            lambda text=text: idle.budgets.spend("team", {"tokens": 1}, key=text),
        ):
            with pytest.raises(BadOption):
                call()
    for number in (-1, 1.5, "many"):
        with pytest.raises(BadOption):
            idle.gates.list(limit=number)
        with pytest.raises(BadOption):
            idle.waits.list(limit=number)
    assert idle.gates.list(limit=10**30) == []
    with pytest.raises(BadOption):
        idle.gates.list(
            namespace=HALF
        )  # what is looked for reaches the database, which has no word for it
    with pytest.raises((BadOption, RunNotFound)):
        idle.signal(7, "paid")
    assert [event.kind for event in run.history()] == before
    assert (
        internals(idle).store.lanes.all() == []
        and idle.retention.list() == []
        and idle.events.subscriptions() == []
        and idle.runs().count() == 1
    )


def test_one_that_cannot_be_stored_does_not_harm_those_written_with_it(idle):
    runs = [idle.start(unpaid_question, id=f"odd-{number}") for number in range(3)]
    client = internals(idle).client
    requests = [client.signal(run.id, "paid", None, None) for run in runs]
    requests[1].op.name = f"paid{HALF}"

    answers = internals(idle).store.apply([request.op for request in requests])

    assert (
        isinstance(answers[1], BadOption)
        and not isinstance(answers[0], Exception)
        and not isinstance(answers[2], Exception)
    )
    assert [len(internals(idle).store.signals.of_run(run.id)) for run in runs] == [1, 0, 1]


@step
async def lists_a_file() -> None:
    raise FileNotFoundError(f"no such file: name-{HALF}")


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it has no words")


@step
async def says_nothing() -> None:
    raise Speechless


@workflow
async def odd_errors(speechless: bool) -> None:
    await (says_nothing() if speechless else lists_a_file())


def test_an_error_whose_words_are_no_unicode_is_kept_and_its_run_fails(engine):
    run = engine.start(odd_errors, False)
    with pytest.raises(RunFailed) as failed:
        run.result(timeout=20)
    assert "no such file: name-\\ud800" in failed.value.facts["message"]


def test_an_error_that_cannot_say_what_it_is_is_kept_by_its_type(engine):
    with pytest.raises(RunFailed) as failed:
        engine.start(odd_errors, True).result(timeout=20)
    assert failed.value.facts["type"] == "Speechless"
    assert failed.value.facts["message"] == "str() of the exception raised RuntimeError"


alone = logging.getLogger("odd_values")
alone.propagate = False  # whoever runs the tests cannot bear such text, either


@step(capture=True)
def logs_a_file() -> None:
    alone.warning("no such file: %s", HALF)


@workflow
def odd_logs() -> None:
    logs_a_file()


def test_what_is_logged_is_captured_even_if_it_is_no_unicode(engine, monkeypatch):
    monkeypatch.setattr(alone, "handlers", [capture._handler])
    run = engine.start(odd_logs)
    run.result(timeout=20)
    assert [frame.value["message"] for frame in engine.streams.read(run.id)] == [
        "no such file: \\ud800"
    ]


@workflow
async def misspelled_spending(how: str) -> str:
    try:
        if how == "spend":
            await spend(token=5)
        async with reserve(token=5):
            pass
    except Exception as error:
        await wait_signal("go on")
        return type(error).__name__
    return "nothing was said"


@pytest.mark.parametrize("how", ["spend", "reserve"])
def test_a_workflow_that_spends_what_nobody_counts_hears_of_it(idle, how):
    run = idle.start(misspelled_spending, how, budget={"tokens": 5})
    run.signal("go on")
    idle.work()
    assert run.result(timeout=20) == "UnknownDimension"
    assert idle.budgets.usage(run.id).total == {}


@pytest.mark.parametrize("how", ["spend", "reserve"])
def test_a_replay_hears_the_same_even_if_it_is_counted_by_then(database, how):
    with Engine(database, shutdown_timeout=1) as engine:
        engine.budgets.set("team", {"tokens": 5})
        run = engine.start(misspelled_spending, how, budget="team")
        wait_for_status(engine, run, "waiting")
    with Engine(database, shutdown_timeout=1) as engine:
        engine.budgets.set("team", {"token": 5})
        engine.signal(run.id, "go on")
        assert engine.run(run.id).result(timeout=60) == "UnknownDimension"
        assert engine.database.check() == []


@workflow
async def matches_nothing() -> None:
    await wait_for(matching("paid", {"amount": float("nan")}))


def test_a_matcher_that_no_payload_can_meet_is_refused(engine):
    with pytest.raises(RunFailed) as failed:
        engine.start(matches_nothing).result(timeout=20)
    assert failed.value.facts["type"] == "BadCondition"


@step
async def is_refused() -> int:
    return 1


@workflow
async def refused_once() -> int:
    return await is_refused()


def test_a_run_that_is_stuck_because_a_write_was_refused_has_no_gap_in_its_history(
    engine, monkeypatch
):
    apply = internals(engine).store.apply

    def refuse_the_outcome(batch):
        for op in batch:
            if any(event.kind == "step_completed" for event in getattr(op, "events", ())):
                monkeypatch.undo()
                raise ValueError("this cannot be written")
        return apply(batch)

    monkeypatch.setattr(internals(engine).store, "apply", refuse_the_outcome)
    run = engine.start(refused_once)
    wait_for_status(engine, run, "stuck")

    assert [(event.seq, event.kind) for event in run.history()] == [(1, "run_stuck")]
    engine.resume(run.id)
    assert run.result(timeout=20) == 1


def test_what_names_no_run_is_not_found_on_both_databases_alike(idle):
    with idle.tasks.worker(workflows=["render"]) as leases:
        calls = [
            idle.run,
            lambda name: idle.run(name).history(),
            idle.why,
            idle.cancel,
            idle.resume,
            idle.replay,
            idle.fork,
            idle.waits.release,
            idle.tasks.revoke,
            leases.reclaim,
            lambda run: idle.signal(run, "go"),
            lambda run: idle.tasks.prioritise(run, 1),
            lambda run: idle.tasks.override(run, "by hand"),
        ]
        for call in calls:
            for name in (None, 7, b"x", [], {}, "no\0run", f"no{HALF}run"):
                with pytest.raises(RunNotFound):
                    call(name)


def test_a_reason_to_cancel_is_a_text(idle):
    run = idle.start("render", 1)
    for reason in (7, b"x", [], "no\0reason", f"no{HALF}reason"):
        with pytest.raises(BadOption, match="reason"):
            idle.cancel(run.id, reason)
    assert run.status == "pending"


def test_a_text_is_not_a_list_of_items(idle):
    for text in ("abc", b"abc"):
        with pytest.raises(BadOption, match="each of its characters"):
            idle.start_many(says_nothing, text)

    assert idle.runs().count() == 0
