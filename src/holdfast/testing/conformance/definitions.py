"""Conformance of stored definitions: frozen by their runs, or deployed in versions."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.definitions import DefinitionState, StoredDefinition, digest_of
from holdfast.core.graphs.model import GraphPatch, MemberSpec, NewGroup, NewMember
from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Lane
from holdfast.core.status import Status
from holdfast.errors import ModelNotFound
from holdfast.store.definitions.operations import (
    DeployDefinitions,
    Deployed,
    NewDeployment,
    SetDefinitionState,
)
from holdfast.store.graphs.operations import GraphStage, StageGraphs
from holdfast.store.runs.copy_operations import BeginCopy, EndCopy, ImportRun
from holdfast.store.runs.operations import Prune, RequestCancel, StartRuns
from holdfast.store.schedules.operations import SetSchedule
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import SECOND, HandClock, StoreFixture
from holdfast.testing.conformance.graph_fixture import compose
from holdfast.testing.conformance.schedules import hourly

DAY = 86_400 * SECOND


BROKEN = {
    "a_definition_has_its_content": (
        "INSERT INTO holdfast.definition (namespace, kind, name, version, digest, state,"
        " deployed_at, used_at) VALUES ('default', 'wf', 'ci', '1', 'none', 'frozen', 1, 1)"
    ),
    "the_content_of_a_definition_belongs_to_one": (
        "INSERT INTO holdfast.definition_content (digest, content) VALUES ('none', '')"
    ),
    "the_version_of_a_deployed_definition_is_its_only_one_with_that_content": (
        "INSERT INTO holdfast.definition (namespace, kind, name, version, digest, state,"
        " deployed_at, used_at) VALUES ('default', 'wf', 'ci', '1', 'none', 'active', 1, 1),"
        " ('default', 'wf', 'ci', '2', 'none', 'active', 1, 1)"
    ),
}
"""One statement per law that breaks it."""


def definition(name: str = "ci", content: bytes = b"call build") -> StoredDefinition:
    """Return a definition as a run keeps it."""
    digest = digest_of(content)
    return StoredDefinition(
        namespace="default",
        kind="wf",
        name=name,
        version=digest[:12],
        digest=digest,
        content=content,
    )


class DefinitionConformance(StoreFixture):
    """A run keeps its definition; deployed content is numbered, and the same content keeps its
    number."""

    def keep(self, store: Store, run_id: str, stored: StoredDefinition) -> None:
        route = Route("default", stored.name, stored.version, "default")
        new = NewRun(id=run_id, route=route, input=b"[]", definition=stored)
        self.do(store, StartRuns([new]))

    def deploy(self, store: Store, *contents: bytes, name: str = "order") -> list[str]:
        versions = []
        for content in contents:
            new = NewDeployment("bpmn", name, digest_of(content), content)
            op = DeployDefinitions(namespace="default", definitions=[new], by="ann")
            (deployed,) = self.do(store, op)
            versions.append(deployed.version)
        return versions

    def set_state(self, store: Store, version: str, state: DefinitionState) -> bool:
        op = SetDefinitionState(
            namespace="default", kind="bpmn", name="order", version=version, state=state
        )
        changed: bool = self.do(store, op)
        return changed

    def current(self, store: Store, name: str = "order") -> list[str]:
        return [each.version for each in store.definitions.current("default", name)]

    def test_schedules_and_members_keep_the_definitions_of_later_runs(
        self, store: Store, clock: HandClock
    ) -> None:
        tick = definition("tick")
        late = definition("late", b"call last")
        schedule = msgspec.structs.replace(hourly(), workflow="tick", version=tick.version)
        first = MemberSpec(route=Route("default", "first", "1", "default"))
        last = MemberSpec(route=Route("default", "late", late.version, "default"))
        members = (
            NewMember(name="a", spec=first, input=b"[]"),
            NewMember(name="b", spec=last, input=b"[]", groups=(NewGroup(("a",), 1),)),
        )
        stage = GraphStage(
            id="g", namespace="default", name="g", fingerprint="f", patch=GraphPatch(members)
        )

        self.do(store, SetSchedule(schedule, definition=tick))
        self.do(store, StageGraphs(stages=[stage], compose=compose, definitions=[late]))
        clock.move(2 * DAY)
        self.do(store, Prune(clock.now() + 1, [Status.CANCELLED]))

        for stored in (tick, late):
            (kept,) = store.definitions.of_route("default", stored.name, stored.version)
            assert kept.content == stored.content

    def test_the_first_run_of_a_definition_stores_it(self, store: Store) -> None:
        stored = definition()

        self.keep(store, "r1", stored)
        self.keep(store, "r2", stored)

        (kept,) = store.definitions.of_route("default", "ci", stored.version)
        assert kept == msgspec.structs.replace(stored, deployed_at=store.now())
        assert store.definitions.deployed("default") == []

    def test_definitions_with_the_same_content_share_it(self, store: Store) -> None:
        self.keep(store, "r1", definition("ci"))
        self.keep(store, "r2", definition("nightly"))

        contents = store.installation.rows()["definition_content"]
        assert contents == [[definition().digest, b"call build"]]

    def test_a_refused_start_stores_no_definition(self, store: Store) -> None:
        self.keep(store, "r1", definition())
        other = definition("ci", b"call test")
        route = Route("default", "other", other.version, "default")

        answers = store.apply(
            [StartRuns([NewRun(id="r1", route=route, input=b"[]", definition=other)])]
        )

        assert isinstance(answers[0], Exception)
        assert store.definitions.of_route("default", "ci", other.version) == []

    def test_a_definition_without_runs_is_deleted_after_a_day(
        self, store: Store, clock: HandClock
    ) -> None:
        self.keep(store, "r1", definition())
        self.keep(store, "r2", definition("ci", b"call test"))
        self.do(store, RequestCancel("r1", "enough"))
        prune = Prune(clock.now() + 1, [Status.CANCELLED])

        clock.move(1)
        self.do(store, prune)
        self.do(store, prune)
        assert len(store.installation.rows()["definition"]) == 2

        clock.move(DAY + SECOND)
        self.do(store, prune)
        assert [row[4] for row in store.installation.rows()["definition"]] == [
            digest_of(b"call test")
        ]

    def test_a_start_keeps_an_old_definition_alive(self, store: Store, clock: HandClock) -> None:
        self.keep(store, "r1", definition())
        clock.move(DAY)
        self.keep(store, "r2", definition())
        for run_id in ("r1", "r2"):
            self.do(store, RequestCancel(run_id, "enough"))
        clock.move(SECOND)

        for _ in range(2):
            self.do(store, Prune(clock.now(), [Status.CANCELLED]))

        assert store.definitions.of_route("default", "ci", definition().version)

    def test_deployed_content_is_numbered_and_the_same_content_keeps_its_number(
        self, store: Store, clock: HandClock
    ) -> None:
        assert self.deploy(store, b"one", b"two", b"two") == ["1", "2", "2"]
        clock.move(1)

        op = DeployDefinitions(
            namespace="default", definitions=[NewDeployment("bpmn", "order", digest_of(b"1"), b"1")]
        )
        assert self.do(store, op) == [Deployed("bpmn", "order", "3", created=True)]
        assert self.current(store) == ["3"]
        versions = store.definitions.deployed("default", name="order")
        assert [(each.version, each.content, each.by) for each in versions] == [
            ("1", b"one", "ann"),
            ("2", b"two", "ann"),
            ("3", b"1", None),
        ]

    def test_versions_are_numbers_not_texts(self, store: Store, clock: HandClock) -> None:
        for number in range(11):
            clock.move(1)
            self.deploy(store, b"%d" % number)

        assert self.current(store) == ["11"]
        assert self.deploy(store, b"new") == ["12"]

    def test_new_runs_use_the_version_that_was_activated_last(self, store: Store) -> None:
        # The clock stands still: the order of the changes counts, not their times.
        self.deploy(store, b"one", b"two")

        assert self.set_state(store, "1", DefinitionState.ACTIVE)
        assert not self.set_state(store, "1", DefinitionState.ACTIVE)
        assert self.current(store) == ["1"]

        assert self.set_state(store, "1", DefinitionState.DEPRECATED)
        assert self.current(store) == ["2"]
        assert self.set_state(store, "2", DefinitionState.DEPRECATED)
        assert self.current(store) == []

        assert self.deploy(store, b"one") == ["1"]
        assert self.current(store) == ["1"]
        assert self.set_state(store, "2", DefinitionState.ACTIVE)
        assert self.set_state(store, "1", DefinitionState.ACTIVE)
        assert self.current(store) == ["1"]
        assert self.deploy(store, b"three") == ["3"]
        assert self.current(store) == ["3"]

    def test_an_unknown_version_is_refused(self, store: Store) -> None:
        self.deploy(store, b"one")

        with pytest.raises(ModelNotFound):
            self.set_state(store, "2", DefinitionState.ACTIVE)

    def test_a_deployed_definition_stays_without_runs(self, store: Store, clock: HandClock) -> None:
        self.deploy(store, b"one")
        clock.move(10 * DAY)

        self.do(store, Prune(clock.now(), [Status.CANCELLED]))

        assert self.current(store) == ["1"]

    def test_a_copy_keeps_definitions(self, store: Store) -> None:
        self.deploy(store, b"one", b"two")
        before = store.definitions.deployed("default")
        rows = store.installation.rows()

        self.end_sessions(store)
        self.do(store, BeginCopy([Lane(name="mail")], rows))
        self.do(store, EndCopy())

        assert store.definitions.deployed("default") == before

    def test_an_imported_run_brings_its_definition(self, store: Store) -> None:
        stored = definition()
        self.keep(store, "r1", stored)
        run = msgspec.structs.replace(self.get(store, "r1"), id="r9")
        other = definition("ci", b"call test")

        self.do(store, ImportRun(run, {}, [], definitions=[other]))

        assert store.definitions.of_route("default", "ci", other.version)[0].content == b"call test"

    def test_definitions_written_since_an_instant_are_found(
        self, store: Store, clock: HandClock
    ) -> None:
        self.deploy(store, b"one")
        clock.move(SECOND)
        instant = clock.now()
        self.keep(store, "r1", definition())

        assert store.definitions.written_since(instant) == [("default", "ci", definition().version)]
