"""Graphs compared with a small model: after any operations, the members that are started, skipped
or cancelled are those of the model.

The model counts everything anew each time, and knows nothing of SQL. Each play is drawn by a
number, so that it is the same wherever it is played. Whom a group stops is left to the store where
two groups are decided at once; that it may is checked.
"""

from dataclasses import dataclass, field
from random import Random

import msgspec
import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.graphs.builder import PLACE
from holdfast.core.graphs.model import NewGroup, RemainderPolicy
from holdfast.core.status import Status
from holdfast.errors import GraphFinished
from holdfast.store.graphs import portions
from holdfast.store.graphs.operations import ResolveGraphs
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.runs.operations import Advance, RequestCancel
from holdfast.store.sqlite import SqliteDatabase
from holdfast.store.store import Store
from holdfast.testing.conformance import HandClock
from holdfast.testing.conformance.graph_fixture import GraphFixture, compose

LOST = {"failed", "cancelled", "expired", "skipped"}
ENDED = LOST | {"completed"}
POLICIES = ["graph", "pending", "all"]


@dataclass
class ModelGroup:
    of: list[str]
    need: int
    rest: str
    state: str = "open"


@dataclass
class ModelMember:
    name: str
    groups: list[ModelGroup]
    takes: list[str]
    state: str = "waiting"
    ran: bool = False
    input: list = field(default_factory=list)


class Play(GraphFixture):
    """One graph: it is extended, its members end alone or together, their outcomes are resolved at
    once or later, it is cancelled, and members are replayed."""

    def __init__(self, store, number):
        self.store, self.chance = store, Random(number)
        self.graph, self.session = f"g{number}", f"s{number}"
        self.members, self.news, self.results = {}, {}, {}
        self.status, self.policy = "running", None
        self.asked = set()

    def play(self, steps):
        """Apply random operations; then complete all remaining members, which ends the graph."""
        new = self.draw_members(6)
        self.stage_graph(self.store, *map(self.as_new, new), graph=self.graph)
        self.take_in(new)
        doings = [self.work] * 5 + [
            self.grow,
            self.cancel_a_run,
            self.settle,
            self.do_it_again,
            self.do_it_again,
        ]
        for step in range(steps):
            self.chance.choice(doings)()
            if self.status == "running" and self.chance.random() < (
                0.02 if step < steps - 3 else 0.3
            ):
                self.cancel()
            self.agree()
        self.settle()
        while self.live():
            self.end(dict.fromkeys(self.live(), Status.COMPLETED), settled=True)
            self.agree()
        assert self.status not in ("running", "cancelling")
        assert self.store.check() == []

    # Operations

    def draw_members(self, most):
        found = []
        for _ in range(self.chance.randint(1, most)):
            there = [*self.members, *(one.name for one in found)]
            others = self.chance.sample(there, self.chance.randint(0, min(len(there), 4)))
            cut = self.chance.randint(0, len(others))
            groups = [self.draw_group(part) for part in (others[:cut], others[cut:]) if part]
            takes = [other for other in others if self.chance.random() < 0.5]
            found.append(ModelMember(f"m{len(there):02}", groups, takes))
        return found

    def draw_group(self, of):
        return ModelGroup(
            of, self.chance.randint(1, len(of)), self.chance.choice(["run", "cancel"])
        )

    def as_new(self, member):
        groups = [(group.of, group.need, group.rest) for group in member.groups]
        return self.new_member(
            member.name,
            groups,
            data=[{PLACE: upstream} for upstream in member.takes],
            takes=member.takes,
        )

    def grow(self):
        if len(self.members) > 20:
            return
        new = self.draw_members(3)
        free = [member.name for member in new if not member.groups]
        waiting = [member.name for member in self.members.values() if member.state == "waiting"]
        more = {self.chance.choice(waiting): self.draw_group(free)} if free and waiting else {}
        groups = [
            (name, NewGroup(tuple(group.of), group.need, RemainderPolicy(group.rest)))
            for name, group in more.items()
        ]
        if self.status != "running":
            with pytest.raises(GraphFinished):
                self.extend_graph(self.store, *map(self.as_new, new), more=groups, graph=self.graph)
            return
        self.extend_graph(self.store, *map(self.as_new, new), more=groups, graph=self.graph)
        for name, group in more.items():
            self.members[name].groups.append(group)
        self.take_in(new)

    def work(self):
        live = self.live()
        if live:
            some = self.chance.sample(live, self.chance.randint(1, min(len(live), 3)))
            fates = [Status.COMPLETED, Status.COMPLETED, Status.FAILED]
            self.end(
                {name: self.chance.choice(fates) for name in some},
                settled=self.chance.random() < 0.7,
            )

    def end(self, fates, *, settled):
        """End runs in one transaction; their outcomes are resolved in it, or later."""
        self.claim(self.store, self.session)
        ops = []
        for name, wanted in fates.items():
            status = Status.CANCELLED if name in self.asked else wanted
            self.news[name] = status.value
            self.results.pop(name, None)
            if status is Status.COMPLETED:
                self.results[name] = self.chance.randint(1, 99)
            ops.append(self.last_words(name, status))
        answers = self.store.apply([*ops, ResolveGraphs(compose=compose)] if settled else ops)
        assert not [item for item in answers if isinstance(item, BaseException)]
        if settled:
            self.hear({name: self.news.pop(name) for name in fates})
            self.settle()  # also resolves outcomes that were left before

    def last_words(self, name, status):
        run, done = self.run(name), status is Status.COMPLETED
        said = (
            {"result": msgspec.json.encode(self.results[name])}
            if done
            else {"error": b'{"type":"E","message":"no"}'}
        )
        event = Event(
            kind=EventKind.RUN_COMPLETED if done else EventKind.RUN_FAILED,
            seq=self.seq(self.store, run.id),
        )
        return Advance(
            run_id=run.id,
            generation=run.generation,
            status=status,
            events=[event],
            graph_id=run.graph_id,
            **said,
        )

    def cancel_a_run(self):
        for name in self.live()[:1]:
            self.do(self.store, RequestCancel(f"{self.graph}::{name}", "no more", force=True))
            self.news[name] = "cancelled"

    def settle(self):
        self.resolve_graphs(self.store)
        news, self.news = self.news, {}
        self.hear(news)

    def cancel(self):
        self.look()
        asked, self.policy = self.asked, self.chance.choice(POLICIES)
        self.cancel_graph(self.store, self.policy, graph=self.graph)
        self.status = "cancelling"
        for member in self.members.values():
            member.state = "cancelled" if member.state == "waiting" else member.state
            for group in member.groups:
                group.state = "impossible" if group.state == "open" else group.state
        actual = self.look()
        for name in self.live():
            begun = self.run(name).started_at is not None
            if actual[name] == "cancelled":
                assert self.policy == "all" or (self.policy == "pending" and not begun)
                self.members[name].state = "cancelled"
            else:
                assert (
                    name in self.asked
                    if self.policy == "all"
                    else name not in self.asked - asked or not begun
                )
        if self.policy == "graph" and any(
            each_member.state == "started" for each_member in self.members.values()
        ):
            self.status = "cancelled"
        self.finish()

    def do_it_again(self):
        self.settle()
        ended = [
            each_member.name for each_member in self.members.values() if each_member.state in ENDED
        ]
        if not ended or self.status in ("cancelling", "cancelled"):
            return
        name, before = self.chance.choice(ended), self.look()
        self.replay_member(self.store, name, graph=self.graph)
        after = self.look()
        changed = {one for one in after if after[one] != before[one]}
        assert name in changed and all(one == name or before[one] in LOST for one in changed)
        self.status = "running"
        for one in changed:
            self.members[one].state = "started" if self.members[one].ran else "waiting"
            self.results.pop(one, None)
        for member in [
            each_member for each_member in self.members.values() if each_member.state == "waiting"
        ]:
            for group in member.groups:
                group.state = "open"
        self.follow(stops=False)
        assert self.members[name].state in ("waiting", "started")

    # Expected effects

    def take_in(self, new):
        self.members.update((member.name, member) for member in new)
        self.follow()

    def hear(self, news):
        for name, status in news.items():
            self.members[name].state = status
        self.follow()

    def follow(self, *, stops=True):
        """Start, skip and stop the members of the model that its groups require."""
        decided = []
        while now := self.decide():
            decided += now
        actual = self.look()
        rest = [
            self.members[upstream]
            for group in decided
            if stops and group.rest == "cancel"
            for upstream in group.of
        ]
        for member in [
            other for other in rest if other.state not in ENDED and not self.needed(other.name)
        ]:
            stopped = actual[member.name] == "cancelled" or (
                member.name in self.asked and member.ran
            )
            assert stopped or self.may_be_spared(member), member
            member.state = actual[member.name]
        for member in rest:  # a member that only these need may be cancelled, too
            if member.state not in ENDED and actual[member.name] == "cancelled":
                assert not self.needed(member.name), member
                member.state = "cancelled"
        while self.decide():
            pass
        for member in self.members.values():
            if member.state == "started" and not member.ran:
                member.ran = True
                member.input = [self.results.get(name) for name in member.takes]
        self.finish()

    def may_be_spared(self, member):
        """Return whether the rest of a group may continue because another group that waited for it
        was decided a little later."""
        return False

    def decide(self):
        """Decide open groups and update their waiting members; return the decided groups."""
        decided = []
        for group in [
            group
            for member in self.members.values()
            for group in member.groups
            if group.state == "open"
        ]:
            states = [self.members[upstream].state for upstream in group.of]
            if states.count("completed") >= group.need:
                group.state = "satisfied"
            elif sum(state in LOST for state in states) > len(states) - group.need:
                group.state = "impossible"
            decided += [group] if group.state != "open" else []
        for member in [
            each_member for each_member in self.members.values() if each_member.state == "waiting"
        ]:
            if any(group.state == "impossible" for group in member.groups):
                member.state = "skipped"
            elif all(group.state == "satisfied" for group in member.groups):
                member.state = "started"
        return decided

    def needed(self, name):
        """Return whether a waiting member has an open group that contains this member."""
        waiting = [member for member in self.members.values() if member.state == "waiting"]
        return any(
            name in group.of
            for member in waiting
            for group in member.groups
            if group.state == "open"
        )

    def finish(self):
        if self.status in ("running", "cancelling") and all(
            each_member.state in ENDED for each_member in self.members.values()
        ):
            above = {
                name
                for member in self.members.values()
                for group in member.groups
                for name in group.of
            }
            well = all(
                member.state == "completed"
                for member in self.members.values()
                if member.name not in above
            )
            self.status = (
                "cancelled" if self.status == "cancelling" else "completed" if well else "failed"
            )

    # Observed state

    def run(self, name):
        return self.get(self.store, f"{self.graph}::{name}")

    def live(self):
        return [
            member.name
            for member in self.members.values()
            if member.state == "started" and member.name not in self.news
        ]

    def look(self):
        """Return the states of members in the store; remember which were asked to stop."""
        stored_members = self.store.graphs.snapshot(self.graph).members.values()
        self.asked = {one.name for one in stored_members if one.asked_at is not None}
        return {one.name: one.state.value for one in stored_members}

    def agree(self):
        assert self.look() == {name: member.state for name, member in self.members.items()}
        assert self.graph_status(self.store, self.graph) == self.status
        for member in self.members.values():
            if member.ran:
                assert msgspec.json.decode(self.run(member.name).input) == member.input


class PortionedPlay(Play):
    """The same with very small portions, all of which are applied before the comparison."""

    def end(self, fates, *, settled):
        super().end(fates, settled=True)

    def cancel_a_run(self):
        super().cancel_a_run()
        self.settle()

    def look(self):
        self.resolve_graphs(self.store)
        return super().look()

    def may_be_spared(self, member):
        return (
            sum(
                member.name in group.of
                for each_member in self.members.values()
                for group in each_member.groups
            )
            > 1
        )

    def resolve_graphs(self, store):
        while super().resolve_graphs(store).more:
            assert store.check() == []


@pytest.fixture
def small_portions(monkeypatch):
    monkeypatch.setattr(portions, "PORTION", 1)
    monkeypatch.setattr(portions, "LINKS", 2)


def explore(store, numbers, play=Play):
    for number in numbers:
        try:
            play(store, number).play(25)
        except BaseException as error:
            error.add_note(f"in play {number}")
            raise


def test_whatever_is_done_a_graph_does_what_the_model_says(tmp_path):
    store = Store(SqliteDatabase(tmp_path / "test.db", clock=HandClock()))
    store.database._db.rows("PRAGMA synchronous = OFF")  # no power loss in this test
    explore(store, range(60))
    store.close()


def test_whatever_is_done_a_graph_in_postgres_does_what_the_model_says(postgres_server):
    with postgres_server.lend() as url:
        store = Store(PostgresDatabase(url, clock=HandClock()))
        explore(store, range(10))
        store.close()


def test_in_small_portions_a_graph_does_what_the_model_says(tmp_path, small_portions):
    store = Store(SqliteDatabase(tmp_path / "test.db", clock=HandClock()))
    store.database._db.rows("PRAGMA synchronous = OFF")  # no power loss in this test
    explore(store, range(40), PortionedPlay)
    store.close()


def test_in_small_portions_a_graph_in_postgres_does_what_the_model_says(
    postgres_server, small_portions
):
    with postgres_server.lend() as url:
        store = Store(PostgresDatabase(url, clock=HandClock()))
        explore(store, range(5), PortionedPlay)
        store.close()
