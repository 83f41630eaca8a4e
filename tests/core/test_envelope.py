"""How sealed values look, whatever they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import envelope
from holdfast.core.event_table import SEALED
from holdfast.core.events import EventKind
from holdfast.errors import BadData

KEYS = st.from_regex(envelope.KEY_ID, fullmatch=True) | st.just("")
PLAIN = {
    EventKind.STEP_STARTED,
    EventKind.STEP_FAILED,
    EventKind.STEP_RETRIED,
    EventKind.STEP_DROPPED,
    EventKind.TIMER_SET,
    EventKind.TIMER_FIRED,
    EventKind.SIGNAL_AWAITED,
    EventKind.SIGNAL_TIMED_OUT,
    EventKind.MESSAGE_AWAITED,
    EventKind.MESSAGE_DROPPED,
    EventKind.MESSAGE_SENT,
    EventKind.BROADCAST_SENT,
    EventKind.INCIDENT_RAISED,
    EventKind.INCIDENT_DROPPED,
    EventKind.VERSION_CHANGED,
    EventKind.ELEMENT_ENTERED,
    EventKind.ELEMENT_COMPLETED,
    EventKind.ELEMENT_CANCELLED,
    EventKind.CHILD_STARTED,
    EventKind.MAP_STARTED,
    EventKind.SIGNAL_SENT,
    EventKind.CANCEL_SENT,
    EventKind.CHILDREN_ENDED,
    EventKind.CANCEL_REQUESTED,
    EventKind.RUN_COMPLETED,
    EventKind.RUN_FAILED,
    EventKind.RUN_CANCELLED,
    EventKind.RUN_EXPIRED,
    EventKind.RUN_STUCK,
    EventKind.RUN_RESUMED,
    EventKind.RUN_REPLAYED,
    EventKind.RUN_FORKED,
    EventKind.HISTORY_DELETED,
    EventKind.STEP_BLOCKED,
    EventKind.BUDGET_SPENT,
    EventKind.BUDGET_RESERVED,
    EventKind.BUDGET_SETTLED,
    EventKind.WAIT_CREATED,
    EventKind.WAIT_OPENED,
    EventKind.WAIT_ESCALATED,
    EventKind.WAIT_DROPPED,
    EventKind.GATE_OPENED,
    EventKind.GATE_REMINDED,
    EventKind.GATE_ESCALATED,
    EventKind.GATE_CLOSED,
    EventKind.GATE_WITHDRAWN,
    EventKind.LEASE_LOST,
    EventKind.ATTEMPT_FAILED,
    EventKind.RUN_DELAYED,
    EventKind.CHILDREN_AWAITED,
    EventKind.LEASE_REVOKED,
    EventKind.PRIORITY_CHANGED,
    EventKind.RUN_OVERRIDDEN,
    EventKind.RUN_RELEASED,
    EventKind.GRAPH_EXTENDED,
}
"""The kinds whose data is the engine's own: times, names, ids."""


@given(key=KEYS, form=st.sampled_from([envelope.PLAIN, envelope.PACKED]), body=st.binary())
def test_a_sealed_value_comes_apart_as_it_was_put_together(key, form, body):
    value = envelope.head(key, form) + body

    assert envelope.is_sealed(value)
    assert envelope.split(value) == (key, form, body)
    assert envelope.digest_of(value) is None


@given(key=KEYS, digest=st.binary(min_size=32, max_size=32), size=st.integers(0, 2**63))
def test_a_reference_says_what_it_refers_to(key, digest, size):
    value = envelope.reference(key, digest, size)

    assert (envelope.digest_of(value), envelope.size_of(value), envelope.split(value).key) == (
        digest,
        size,
        key,
    )
    assert len(value) <= 120  # the queries that look for references cut values here


@pytest.mark.parametrize("data", [None, b"", b"null", b'{"a":1}', b"[]"])
def test_json_is_never_taken_for_sealed(data):
    assert not envelope.is_sealed(data)
    assert envelope.digest_of(data) is None


@pytest.mark.parametrize("data", [b"\x00", b"\x00k1", b"\x00k1\x00", b"\x00k1\x00x1"])
def test_what_only_begins_like_a_sealed_value_is_refused(data):
    with pytest.raises(BadData):
        envelope.split(data)


def test_each_kind_of_event_is_known_to_hold_the_users_data_or_the_engines():
    """Who adds a kind of event decides: data of the user's is sealed, and goes to ``SEALED``; what
    the engine needs to read without keys is not, and goes to the list above."""
    kinds = {kind for name, kind in vars(EventKind).items() if not name.startswith("_")}

    assert kinds - PLAIN == SEALED
