"""Conformance of subscriptions: a named cursor reads the events of all runs in order, at least
once; webhooks deliver them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.events import Event, EventKind
from holdfast.core.runs import Cell, Route, RunSnapshot
from holdfast.core.subscriptions import (
    BEGINNING,
    CURSOR,
    NOW,
    DeadLetter,
    EventCursor,
    EventFilter,
    RunEvent,
    Subscription,
)
from holdfast.errors import LeaseLost, SubscriptionExists, SubscriptionNotFound
from holdfast.store.runs.copy_operations import BeginCopy, CopyRuns, EndCopy
from holdfast.store.runs.operations import Advance, Advanced, EndSession, Prune
from holdfast.store.store import Store
from holdfast.store.subscriptions.operations import (
    AddCursor,
    ClaimWebhooks,
    Consume,
    Consumed,
    MoveCursor,
    RecordDelivery,
    RedeliverDeadLetters,
    RemoveSubscription,
    ResealWebhook,
    SetWebhook,
)
from holdfast.testing.conformance.fixture import MINUTE, HandClock, StoreFixture
from holdfast.testing.conformance.reading import BROKEN

_SUBSCRIPTION = """INSERT INTO holdfast.subscription (name, kind, which, after_tx, after_id,
    created_at, attempts, next_at)
    VALUES """

BROKEN |= {
    "a_dead_letter_belongs_to_a_webhook": (
        """INSERT INTO holdfast.dead_letter
        (subscription, run_id, seq, body, attempts, error, at) VALUES ('none', 'held', 1, '1', 1,
        'x', 1)"""
    ),
    "a_webhook_and_no_other_subscription_has_a_url_and_a_secret": (
        f"{_SUBSCRIPTION} ('a', 'webhook', '{{}}', 1, 0, 1, 0, NULL)"
    ),
    "a_subscription_has_a_retry_time_exactly_if_attempts_have_failed": (
        f"{_SUBSCRIPTION} ('a', 'cursor', '{{}}', 1, 0, 1, 1, NULL)"
    ),
    "the_position_of_a_subscription_is_not_beyond_the_last_event": (
        f"{_SUBSCRIPTION} ('a', 'cursor', '{{}}', 1, 9999999, 1, 0, NULL)"
    ),
    "at_most_one_event_row_is_a_placeholder": (
        """INSERT INTO holdfast.event (run_id, seq, kind, attempt, at)
        VALUES ('', -1, 'numbered', 1, 1), ('', -2, 'numbered', 1, 1)"""
    ),
}

ALL = EventFilter()
SHOP = Route("shop", "order", "1", "default")
HOOK = "https://example.org/hook"


class SubscriptionConformance(StoreFixture):
    """A reader of events misses none, and gets the events of each run in order."""

    def read_events(
        self,
        store: Store,
        which: EventFilter = ALL,
        after: EventCursor | str = BEGINNING,
        window: int = 500,
    ) -> list[tuple[str, int]]:
        """Read all pages after a cursor; return the run and the number of each event."""
        positions: list[tuple[str, int]] = []
        place = store.subscriptions.place(after)
        while True:
            events, edge = store.subscriptions.events(place, which, window)
            positions += [(event.run_id, event.seq) for event in events]
            if edge == place:
                return positions
            place = edge

    def add_webhook(self, store: Store, name: str = "hook", **options: Any) -> Subscription:
        terms = {"start": NOW, "url": HOOK, "secret": "s" * 16, "attempt_limit": 3, **options}
        operation = SetWebhook(name=name, first_secret="f" * 16, **terms)
        subscription: Subscription = self.do(store, operation)
        return subscription

    def test_events_are_read_as_they_were_written(self, store: Store, clock: HandClock) -> None:
        run = self.hold(store, route=SHOP)
        self.advance(
            store, run, events=[Event(EventKind.STEP_FAILED, "a", b"1", b"{}", 2, 5, seq=1)]
        )

        (event,), edge = store.subscriptions.events(store.subscriptions.place(BEGINNING), ALL)

        assert (event.run_id, event.namespace, event.workflow, event.seq, event.kind) == (
            "r1",
            "shop",
            "order",
            1,
            "step_failed",
        )
        assert (event.step, event.data, event.error, event.attempt, event.started_at) == (
            "a",
            b"1",
            b"{}",
            2,
            5,
        )
        assert event.at == clock.now()
        assert event.cursor.startswith(f"{store.installation.id()}.")
        assert store.subscriptions.events(edge, ALL) == ([], edge)

    @pytest.mark.parametrize("window", [1, 2, 3, 100])
    def test_pages_of_any_size_return_every_event_once_and_in_order(
        self, store: Store, window: int
    ) -> None:
        runs = [self.hold(store, name) for name in ("a", "b", "c")]
        for run in [*runs, *runs]:
            self.advance(store, run)

        assert self.read_events(store, window=window) == [
            ("a", 1),
            ("b", 1),
            ("c", 1),
            ("a", 2),
            ("b", 2),
            ("c", 2),
        ]

    def test_events_of_one_batch_are_read_in_the_order_of_their_runs_histories(
        self, store: Store
    ) -> None:
        runs = [self.hold(store, name) for name in ("a", "b")]
        events = {
            run.id: [Event(EventKind.MARKED, str(seq), seq=seq) for seq in (1, 2, 3)]
            for run in runs
        }
        store.apply(
            [
                Advance(run_id=run.id, generation=run.generation, events=events[run.id])
                for run in runs
            ]
        )

        positions = self.read_events(store)

        assert [seq for run_id, seq in positions if run_id == "a"] == [1, 2, 3]
        assert [seq for run_id, seq in positions if run_id == "b"] == [1, 2, 3]

    def test_only_matching_events_are_returned_and_the_cursor_passes_the_others(
        self, store: Store
    ) -> None:
        shop = self.hold(store, "shop", route=SHOP, tags={"customer": "7", "city": "Ulm"})
        other = self.hold(store, "other", tags={"customer": "7"})
        for run in (shop, other):
            self.advance(store, run)
            self.finish(store, run)

        assert self.read_events(store, EventFilter(workflow="order")) == [("shop", 1), ("shop", 2)]
        assert self.read_events(
            store, EventFilter(namespace="shop", kinds=(EventKind.RUN_COMPLETED,))
        ) == [("shop", 2)]
        assert self.read_events(
            store, EventFilter(run_id="other", kinds=(EventKind.MARKED, EventKind.RUN_FAILED))
        ) == [("other", 1)]
        assert self.read_events(store, EventFilter(tags={"customer": "7", "city": "Ulm"})) == [
            ("shop", 1),
            ("shop", 2),
        ]
        assert self.read_events(store, EventFilter(tags={"customer": "8"}), window=1) == []
        assert self.read_events(
            store, EventFilter(tags={"customer": "7"}, kinds=(EventKind.RUN_COMPLETED,))
        ) == [
            ("shop", 2),
            ("other", 2),
        ]

    def test_a_reader_that_begins_now_gets_only_later_events(self, store: Store) -> None:
        run = self.hold(store)
        self.advance(store, run)
        now = store.subscriptions.place(NOW)

        self.advance(store, run)

        assert self.read_events(store, after=now) == [("r1", 2)]

    def test_event_numbers_are_not_reused(self, store: Store, clock: HandClock) -> None:
        self.finish(store, self.hold(store, "a"))
        self.finish(store, self.hold(store, "b"))
        place = store.subscriptions.place(NOW)
        clock.move(MINUTE)
        self.do(store, Prune(clock.now(), ["completed"]))

        run = self.hold(store, "c")
        self.advance(store, run)
        self.finish(store, run)

        assert self.read_events(store, after=place) == [("c", 1), ("c", 2)]
        assert self.read_events(store) == [("c", 1), ("c", 2)]

    def test_a_takeover_is_an_event_and_no_progress(self, store: Store) -> None:
        run = self.hold(store)
        self.advance(store, run)
        self.do(store, EndSession("s1", crashed=True))

        (event,) = store.subscriptions.events(
            store.subscriptions.place(BEGINNING), EventFilter(kinds=(EventKind.LEASE_LOST,))
        )[0]
        assert event.data == b'{"session":"s1","worker":"w"}'
        for number, crashes in enumerate((2, 3, 4)):
            self.claim(store, f"t{number}")
            self.do(store, EndSession(f"t{number}", crashed=True))
            assert self.get(store).crashes == crashes

    def test_a_parked_run_or_a_session_that_ends_without_a_crash_loses_no_lease(
        self, store: Store
    ) -> None:
        self.park(store, self.hold(store), keep=True)
        self.hold(store, "r2", "s2")
        self.do(store, EndSession("s1", crashed=True))
        self.do(store, EndSession("s2", crashed=False))

        assert self.read_events(store, EventFilter(kinds=(EventKind.LEASE_LOST,))) == []

    # Named cursors

    def test_a_named_cursor_continues_where_it_stopped(self, store: Store) -> None:
        self.finish(store, self.hold(store))
        opened = self.do(store, AddCursor("me", ALL, BEGINNING))
        _, edge = store.subscriptions.events(opened.place, ALL)

        self.do(store, MoveCursor("me", edge))
        self.do(
            store, MoveCursor("me", opened.place)
        )  # a slower reader cannot move the cursor back

        again = self.do(store, AddCursor("me", ALL, BEGINNING))
        assert (opened.place, again.place) == (store.subscriptions.place(BEGINNING), edge)
        assert store.subscriptions.get("me") == again
        assert [subscription.name for subscription in store.subscriptions.all()] == ["me"]

    def test_a_name_belongs_to_one_kind_of_reader_of_certain_events(self, store: Store) -> None:
        self.do(store, AddCursor("me", ALL, BEGINNING))

        with pytest.raises(SubscriptionExists):
            self.do(store, AddCursor("me", EventFilter(workflow="other"), BEGINNING))
        with pytest.raises(SubscriptionExists):
            self.add_webhook(store, "me")
        with pytest.raises(SubscriptionNotFound):
            self.do(store, MoveCursor("nobody", EventCursor(1, 1)))
        with pytest.raises(SubscriptionNotFound):
            self.do(store, RemoveSubscription("nobody"))
        with pytest.raises(SubscriptionNotFound):
            self.do(store, RedeliverDeadLetters("nobody"))

        self.do(store, RemoveSubscription("me"))
        assert store.subscriptions.all() == []

    # Callbacks in the same transaction

    def test_writes_of_a_callback_and_the_cursor_are_committed_together(self, store: Store) -> None:
        self.execute(store, "CREATE TABLE ledger (line TEXT)")
        run = self.hold(store)
        for _ in range(3):
            self.advance(store, run)
        received: list[int] = []

        def note(connection: Any, events: list[RunEvent]) -> None:
            received.extend(event.seq for event in events)
            for event in events:
                connection.execute(
                    f"INSERT INTO ledger (line) VALUES ('{event.run_id} {event.seq}')"
                )

        def stumble(connection: Any, events: list[RunEvent]) -> None:
            note(connection, events)
            raise ValueError("no")

        consume = Consume("me", ALL, BEGINNING, 2, note)
        with pytest.raises(ValueError, match="no"):
            self.do(store, Consume("me", ALL, BEGINNING, 2, stumble))
        assert store.subscriptions.get("me") is None
        assert self.do(store, consume) == Consumed(2, more=True)
        with pytest.raises(ValueError, match="no"):
            self.do(store, Consume("me", ALL, BEGINNING, 2, stumble))
        assert self.do(store, consume) == Consumed(1, more=True)
        assert self.do(store, consume) == Consumed(0, more=False)

        assert received == [1, 2, 1, 2, 3, 3]
        with self.transaction(store) as connection:
            lines = connection.execute("SELECT line FROM ledger ORDER BY line").fetchall()
        assert [line[0] for line in lines] == ["r1 1", "r1 2", "r1 3"]

    def test_a_callback_that_raises_does_not_affect_other_operations(self, store: Store) -> None:
        run = self.hold(store)
        self.advance(store, run)

        def stumble(connection: Any, events: list[RunEvent]) -> None:
            raise ValueError("no")

        answers = store.apply(
            [
                Advance(run_id="r1", generation=run.generation, events=[self.event(store)]),
                Consume("me", ALL, BEGINNING, 10, stumble),
                AddCursor("other", ALL, NOW),
            ]
        )

        assert isinstance(answers[0], Advanced)
        assert isinstance(answers[1], ValueError)
        assert [subscription.name for subscription in store.subscriptions.all()] == ["other"]

    def test_events_that_do_not_match_are_passed_without_a_call(self, store: Store) -> None:
        self.advance(store, self.hold(store))

        def never(connection: Any, events: list[RunEvent]) -> None:
            raise AssertionError("called")

        which = EventFilter(workflow="other")
        assert self.do(store, Consume("me", which, BEGINNING, 10, never)) == Consumed(0, more=True)
        assert self.do(store, Consume("me", which, BEGINNING, 10, never)) == Consumed(0, more=False)

    # Webhooks

    def test_one_session_at_a_time_delivers_a_webhook(self, store: Store) -> None:
        self.add_webhook(store)
        self.open(store, "s1")
        self.open(store, "s2")

        assert self.do(store, ClaimWebhooks("s1")) == ["hook"]
        assert self.do(store, ClaimWebhooks("s2")) == []
        with pytest.raises(LeaseLost):
            self.do(store, RecordDelivery("hook", "s2", EventCursor(1, 1)))

        self.do(store, EndSession("s1", crashed=True))
        assert self.do(store, ClaimWebhooks("s1")) == []
        assert self.do(store, ClaimWebhooks("s2")) == ["hook"]
        with pytest.raises(LeaseLost):
            self.do(store, RecordDelivery("hook", "s1", EventCursor(1, 1)))

        self.do(store, EndSession("s2", crashed=False))
        subscription = store.subscriptions.get("hook")
        assert subscription is not None and subscription.session_id is None

    def append_events(self, store: Store, count: int) -> None:
        """Append *count* events: a law forbids cursors beyond the last event."""
        run = self.hold(store, route=SHOP)
        events = [
            Event(EventKind.MARKED, str(number), seq=number) for number in range(1, count + 1)
        ]
        self.advance(store, run, events=events)

    def test_the_result_of_a_delivery_is_recorded(self, store: Store, clock: HandClock) -> None:
        self.add_webhook(store)
        self.append_events(store, 8)
        self.open(store)
        self.do(store, ClaimWebhooks("s1"))

        self.do(
            store, RecordDelivery("hook", "s1", EventCursor(1, 7), 2, clock.now() + 5, "no answer")
        )
        failing = store.subscriptions.get("hook")
        self.do(store, RecordDelivery("hook", "s1", EventCursor(1, 8)))
        arrived = store.subscriptions.get("hook")

        assert failing is not None and arrived is not None
        assert (failing.place, failing.attempts, failing.next_at, failing.error) == (
            EventCursor(1, 7),
            2,
            clock.now() + 5,
            "no answer",
        )
        assert (arrived.place, arrived.attempts, arrived.next_at, arrived.error) == (
            EventCursor(1, 8),
            0,
            None,
            None,
        )

    def test_an_undeliverable_event_is_kept_as_a_dead_letter_and_can_be_redelivered(
        self, store: Store, clock: HandClock
    ) -> None:
        self.add_webhook(store)
        self.append_events(store, 8)
        self.open(store)
        self.do(store, ClaimWebhooks("s1"))
        letter = DeadLetter("hook", "r1", 3, b"{}", 3, "no answer", 0)

        self.do(
            store, RecordDelivery("hook", "s1", EventCursor(1, 8), error="no answer", letter=letter)
        )
        assert store.subscriptions.dead_letters("hook") == [
            DeadLetter("hook", "r1", 3, b"{}", 3, "no answer", clock.now())
        ]
        assert store.subscriptions.dead_letters("hook", again=True) == []
        assert self.do(store, RedeliverDeadLetters("hook")) == 1
        assert [
            letter.again for letter in store.subscriptions.dead_letters("hook", again=True)
        ] == [True]

        once_more = DeadLetter("hook", "r1", 3, b"{}", 1, "still no answer", 0)
        self.do(store, RecordDelivery("hook", "s1", EventCursor(1, 8), letter=once_more))
        (letter,) = store.subscriptions.dead_letters("hook")
        assert (letter.attempts, letter.error, letter.again) == (4, "still no answer", False)

        self.do(store, RedeliverDeadLetters("hook"))
        self.do(store, RecordDelivery("hook", "s1", EventCursor(1, 8), delivered=letter))
        assert store.subscriptions.dead_letters("hook") == []

    def test_the_secret_of_a_webhook_gets_another_seal_unless_it_has_changed(
        self, store: Store
    ) -> None:
        self.add_webhook(store)

        assert not self.do(store, ResealWebhook("hook", "not what is stored", "sealed"))
        assert not self.do(store, ResealWebhook("other", "s" * 16, "sealed"))
        assert self.do(store, ResealWebhook("hook", "s" * 16, "\x01e1\x01sealed"))

        assert [webhook.secret for webhook in store.subscriptions.all()] == ["\x01e1\x01sealed"]
        assert store.payloads.keys_in_use() == {"e1": 1}

    def test_unsubscribing_deletes_dead_letters(self, store: Store) -> None:
        self.add_webhook(store)
        self.open(store)
        self.do(store, ClaimWebhooks("s1"))
        letter = DeadLetter("hook", "r1", 3, b"{}", 3, "no answer", 0)
        self.do(store, RecordDelivery("hook", "s1", EventCursor(1, 8), letter=letter))

        self.do(store, RemoveSubscription("hook"))

        assert store.subscriptions.dead_letters("hook") == []
        assert store.installation.rows() == {}

    # Copies

    def test_copied_events_keep_their_order_and_come_before_new_ones(self, store: Store) -> None:
        events = {
            "a": [
                Event(EventKind.MARKED, "1", seq=1, at=1, id=11),
                Event(EventKind.MARKED, "2", seq=2, at=1, id=13),
            ],
            "b": [
                Event(EventKind.MARKED, "1", seq=1, at=1, id=12),
                Event(EventKind.MARKED, "2", seq=2, at=1, id=14),
            ],
        }
        which = b'{"workflow":null}'
        empty = (None, None, None)
        row: list[Cell] = ["me", CURSOR, which, "runs", 1, 12, 1, *empty, 0, 0, None, None]
        self.end_sessions(store)
        self.do(store, BeginCopy([], {"subscription": [row]}))
        self.start(store, "pattern")
        pattern = self.get(store, "pattern")
        self.end_sessions(store)
        self.do(store, BeginCopy([], {"subscription": [row]}))
        for run_id, lines in events.items():
            run = type(pattern)(
                **{**{n: getattr(pattern, n) for n in pattern.__struct_fields__}, "id": run_id}
            )
            self.do(store, CopyRuns([RunSnapshot(run, {}, lines, rank=1)]))
        self.do(store, EndCopy())

        run, _ = self.claim(store)
        self.advance(store, run)

        subscription = store.subscriptions.get("me")
        assert subscription is not None
        assert self.read_events(store) == [("a", 1), ("b", 1), ("a", 2), ("b", 2), (run.id, 3)]
        assert self.read_events(store, after=subscription.place) == [
            ("a", 2),
            ("b", 2),
            (run.id, 3),
        ]
        numbers = [
            event.id for whole in store.run_snapshots.page("", 10, 10**6) for event in whole.events
        ]
        assert len(set(numbers)) == len(numbers)
        assert max(numbers) > 14
