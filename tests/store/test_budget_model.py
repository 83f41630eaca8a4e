"""Budgets compared with a small model: after any operations, the store counts what was spent."""

import itertools
from collections import Counter
from contextlib import nullcontext

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.budgets.rules import UNIT, limits_from
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Session
from holdfast.core.status import Status
from holdfast.errors import LeaseLost
from holdfast.store.budgets.operations import (
    BudgetRefused,
    BudgetSpent,
    RaiseBudget,
    RefundRun,
    ReleaseReservations,
    ReserveBudget,
    ResetBudget,
    SetBudget,
    SpendBudget,
    SpendRunBudget,
    spending_effects,
)
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.runs.operations import (
    Advance,
    Advanced,
    Claim,
    EndSession,
    OpenSession,
    StartRuns,
)
from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.store import Store
from holdfast.testing.conformance import SECOND, HandClock
from holdfast.testing.postgres import _WIPE

ROUTE = Route("default", "greet", "1", "default")
NAMES = ("team", "other")
PERIOD = 10 * SECOND
AMOUNTS = st.integers(0, 6)


class BudgetMachine(RuleBasedStateMachine):
    """Runs that spend, die and are taken over; people who raise, lower, reset and spend."""

    new_store = None
    numbers = itertools.count()

    @initialize()
    def open(self):
        self.clock = HandClock()
        self.number = next(self.numbers)
        self.store = self.new_store(self.number, self.clock)
        self.used, self.own = Counter(), Counter()
        self.hard = dict.fromkeys(NAMES, 20)
        self.aside, self.lasting, self.keys = {}, {}, set()
        self.runs, self.begun = {}, []
        self.created, self.last_reset = {}, {}
        self.reset_at = self.clock.now() + PERIOD
        self.do(SetBudget(name="team", limits=limits_from({"tokens": 20}), resets=str(PERIOD)))
        self.do(SetBudget(name="other", limits=limits_from({"tokens": 20})))
        self.open_session()

    def teardown(self):
        self.store.close()

    def do(self, op):
        answer = self.store.apply([op])[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def open_session(self):
        self.session = f"s{self.number}-{next(self.numbers)}"
        now = self.clock.now()
        told = {
            "worker": "w",
            "host": "h",
            "pid": 1,
            "slot": -1,
            "started_at": now,
            "beat_at": now,
            "serves": b"{}",
        }
        self.do(OpenSession(Session(id=self.session, expires_at=now + SECOND, **told)))

    def tick(self, *names):
        """Reset a budget of the model that is past its reset time, as the store does on access."""
        if "team" in names and self.clock.now() >= self.reset_at:
            self.used["team"] = 0
            self.last_reset["team"] = self.clock.now()
            while self.reset_at <= self.clock.now():
                self.reset_at += PERIOD

    def whose(self, run):
        return {
            "run_id": run,
            "generation": self.store.runs.get(run).generation,
            "budgets": self.runs[run],
        }

    def event(self, run, kind):
        number = len(self.store.runs.history(run)) + 1
        return Event(kind, f"{kind} {number}", seq=number)

    def free(self, name):
        return (
            self.hard[name]
            - self.used[name]
            - sum(n for (_, _, budget), n in self.all_aside().items() if budget == name)
        )

    def all_aside(self):
        return {**self.aside, **self.lasting}

    def some(self, data):
        return data.draw(st.sampled_from(sorted(self.runs)))

    def fits(self, run, amount, credit=0):
        """Return whether *amount* fits into all budgets of the run, of which none is overdrawn."""
        return all(
            self.used[name] <= self.hard[name] and amount - credit <= max(self.free(name), 0)
            for name in self.runs[run]
        )

    @rule(names=st.sampled_from([("team",), ("other",), ("other", "team")]))
    def start(self, names):
        run = f"m{self.number}-{len(self.begun)}"
        self.begun.append(run)
        self.do(
            StartRuns(
                [NewRun(id=run, route=ROUTE, input=b"[]", session_id=self.session, budgets=names)]
            )
        )
        self.runs[run] = names
        self.created[run] = self.clock.now()

    @precondition(lambda self: self.runs)
    @rule(
        data=st.data(),
        amount=AMOUNTS,
        key=st.sampled_from([None, None, "k"]),
        stale=st.booleans(),
        fact=st.booleans(),
        settles=st.sampled_from([[], ["step"]]),
    )
    def step_ends(self, data, amount, key, stale, fact, settles):
        run = self.some(data)
        whose = self.whose(run)
        budgets = whose.pop("budgets")
        whose["generation"] += stale
        spends = [SpendEntry({"tokens": amount * UNIT}, key, None, fact)]
        op = Advance(
            events=[self.event(run, EventKind.MARKED)],
            effects=[*spending_effects(budgets, spends), ReleaseReservations(settles)],
            **whose,
        )
        with pytest.raises(LeaseLost) if stale else nullcontext():
            answer = self.do(op)
        if stale:
            return
        wanted = 0 if key is not None and (run, key) in self.keys else amount
        if not fact:
            self.tick(*self.runs[run])
            credit = self.aside.get((run, "step", self.runs[run][0]), 0) if settles else 0
            assert isinstance(answer, Advanced) == self.fits(run, wanted, credit)
            if isinstance(answer, BudgetRefused):
                return
        self.drop(lambda owner, what: owner == run and what in settles)
        if key is not None and (run, key) in self.keys:
            return
        self.keys.add((run, key))
        self.tick(*self.runs[run])
        self.count(run, amount)
        assert (answer.breach is not None) == (
            fact and any(self.used[name] > self.hard[name] for name in self.runs[run])
        )

    def count(self, run, amount):
        self.own[run] += amount
        for name in self.runs[run]:
            self.used[name] += amount

    def drop(self, which):
        self.aside = {
            key: amount for key, amount in self.aside.items() if not which(key[0], key[1])
        }

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), amount=AMOUNTS)
    def take(self, data, amount):
        run = self.some(data)
        self.tick(*self.runs[run])
        answer = self.do(
            SpendRunBudget(
                **self.whose(run),
                amounts={"tokens": amount * UNIT},
                event=self.event(run, EventKind.BUDGET_SPENT),
            )
        )
        assert isinstance(answer, BudgetSpent) == self.fits(run, amount)
        if isinstance(answer, BudgetSpent):
            self.count(run, amount)

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), amount=AMOUNTS, lasts=st.booleans())
    def set_aside(self, data, amount, lasts):
        run = self.some(data)
        self.tick(*self.runs[run])
        held, key = (self.lasting, "block") if lasts else (self.aside, "step")
        old = held.get((run, key, self.runs[run][0]), 0)
        event = self.event(run, EventKind.BUDGET_RESERVED) if lasts else None
        answer = self.do(
            ReserveBudget(
                **self.whose(run), key=key, amounts={"tokens": amount * UNIT}, event=event
            )
        )
        assert isinstance(answer, BudgetSpent) == self.fits(run, amount, old)
        if isinstance(answer, BudgetSpent):
            for name in self.runs[run]:
                held[run, key, name] = amount

    @rule(crashed=st.booleans())
    def worker_dies(self, crashed):
        self.do(EndSession(self.session, crashed, 1000))
        self.drop(lambda owner, what: True)
        self.open_session()
        routes = [(number, route.lane) for number, route in self.store.runs.routes().items()]
        for _ in range(len(self.runs)):  # suspects are claimed one at a time
            for run in self.do(Claim(self.session, routes, 1000)):
                self.do(
                    Advance(
                        run_id=run.id,
                        generation=run.generation,
                        events=[self.event(run.id, EventKind.MARKED)],
                    )
                )

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def run_ends(self, data):
        run = self.some(data)
        self.do(
            Advance(
                run_id=run,
                generation=self.store.runs.get(run).generation,
                status=Status.COMPLETED,
                result=b"1",
                events=[self.event(run, EventKind.RUN_COMPLETED)],
                effects=[ReleaseReservations(None)],
            )
        )
        self.drop(lambda owner, what: owner == run)
        self.lasting = {key: amount for key, amount in self.lasting.items() if key[0] != run}
        del self.runs[run]

    @rule(name=st.sampled_from(NAMES), amount=AMOUNTS)
    def raise_it(self, name, amount):
        self.do(RaiseBudget(name, {"tokens": amount * UNIT}))
        self.hard[name] += amount

    @rule(name=st.sampled_from(NAMES), limit=st.integers(0, 30))
    def set_it(self, name, limit):
        resets = str(PERIOD) if name == "team" else None
        self.do(SetBudget(name=name, limits=limits_from({"tokens": limit}), resets=resets))
        self.hard[name] = limit

    @rule(name=st.sampled_from(NAMES), amount=AMOUNTS)
    def somebody_spends(self, name, amount):
        self.tick(name)
        answer = self.do(SpendBudget(name, {"tokens": amount * UNIT}))
        fits = self.used[name] <= self.hard[name] and amount <= max(self.free(name), 0)
        assert isinstance(answer, BudgetSpent) == fits
        self.used[name] += amount if fits else 0

    @rule()
    def reset(self):
        self.do(ResetBudget("other"))
        self.used["other"] = 0
        self.last_reset["other"] = self.clock.now()

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def refund(self, data):
        run = self.some(data)
        self.tick(*self.runs[run])
        refunded = self.do(RefundRun(run))
        own = self.own[run]
        assert refunded.amounts == ({"tokens": own * UNIT} if own else {})
        for name in self.runs[run]:
            if self.last_reset.get(name, -1) < self.created[run]:
                assert own <= self.used[name]
                self.used[name] -= own
        self.own[run] = 0

    @rule(seconds=st.integers(1, 7))
    def pass_time(self, seconds):
        self.clock.move(seconds * SECOND)

    @invariant()
    def what_is_counted_is_what_was_spent(self):
        lines = {line.budget: line for line in self.store.budgets.lines(NAMES)}
        for name in NAMES:
            aside = sum(
                amount for (_, _, budget), amount in self.all_aside().items() if budget == name
            )
            due = name == "team" and self.clock.now() >= self.reset_at
            assert lines[name].used == (0 if due else self.used[name] * UNIT)
            assert (lines[name].reserved, lines[name].hard) == (
                aside * UNIT,
                self.hard[name] * UNIT,
            )

    @invariant()
    def what_each_run_has_spent_is_what_its_work_says(self):
        for run, amount in self.own.items():
            spent = self.store.budgets.spending(run).get(run, {}).get("tokens", 0)
            assert spent == amount * UNIT

    @invariant()
    def no_law_is_broken(self):
        assert self.store.check() == []


def explore(new_store, examples):
    run_state_machine_as_test(
        type("Machine", (BudgetMachine,), {"new_store": staticmethod(new_store)}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_whatever_is_done_what_is_counted_is_what_was_spent(tmp_path):
    def new_store(number, clock):
        store = Store(SqliteDatabase(tmp_path / f"{number}.db", clock=clock))
        store.database._db.rows("PRAGMA synchronous = OFF")  # no power loss in this test
        return store

    explore(new_store, 50)


def test_whatever_is_done_in_postgres_what_is_counted_is_what_was_spent(postgres_server):
    with postgres_server.lend() as url:

        def new_store(number, clock):
            postgres_server.execute(_WIPE, url)
            return Store(PostgresDatabase(url, clock=clock))

        explore(new_store, 12)
