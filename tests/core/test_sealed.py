"""How sealed values look, whatever they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import sealed
from holdfast.core.records import PRIVATE, Kind
from holdfast.errors import BadData

KEYS = st.from_regex(sealed.KEY_ID, fullmatch=True) | st.just("")
PLAIN = {
    Kind.STEP_STARTED, Kind.STEP_FAILED, Kind.STEP_RETRIED, Kind.STEP_DROPPED, Kind.TIMER_SET, Kind.TIMER_FIRED,
    Kind.SIGNAL_AWAITED, Kind.SIGNAL_TIMED_OUT, Kind.CHILD_STARTED, Kind.MAP_STARTED, Kind.SIGNAL_SENT, Kind.CANCEL_SENT,
    Kind.CHILDREN_ENDED,
    Kind.CANCEL_REQUESTED, Kind.RUN_COMPLETED, Kind.RUN_FAILED, Kind.RUN_CANCELLED, Kind.RUN_EXPIRED, Kind.RUN_STUCK,
    Kind.RUN_RESUMED, Kind.RUN_REPLAYED, Kind.RUN_FORKED, Kind.HISTORY_DELETED, Kind.STEP_BLOCKED, Kind.BUDGET_SPENT,
    Kind.BUDGET_RESERVED, Kind.BUDGET_SETTLED,
    Kind.WAIT_CREATED, Kind.WAIT_OPENED, Kind.WAIT_ESCALATED, Kind.WAIT_DROPPED,
    Kind.GATE_OPENED, Kind.GATE_REMINDED, Kind.GATE_ESCALATED, Kind.GATE_CLOSED, Kind.GATE_WITHDRAWN,
    Kind.LEASE_LOST, Kind.ATTEMPT_FAILED, Kind.RUN_DELAYED, Kind.LEASE_REVOKED, Kind.PRIORITY_CHANGED, Kind.RUN_OVERRIDDEN,
    Kind.RUN_RELEASED, Kind.GRAPH_GROWN,
}  # fmt: skip
"""The kinds whose data is the engine's own: times, names, ids."""


@given(key=KEYS, form=st.sampled_from([sealed.PLAIN, sealed.PACKED]), body=st.binary())
def test_a_sealed_value_comes_apart_as_it_was_put_together(key, form, body):
    value = sealed.head(key, form) + body

    assert sealed.is_sealed(value)
    assert sealed.split(value) == (key, form, body)
    assert sealed.digest_of(value) is None


@given(key=KEYS, digest=st.binary(min_size=32, max_size=32), size=st.integers(0, 2**63))
def test_a_reference_says_what_it_refers_to(key, digest, size):
    value = sealed.reference(key, digest, size)

    assert (sealed.digest_of(value), sealed.size_of(value), sealed.split(value).key) == (digest, size, key)
    assert len(value) <= 120  # the queries that look for references cut values here


@pytest.mark.parametrize("data", [None, b"", b"null", b'{"a":1}', b"[]"])
def test_json_is_never_taken_for_sealed(data):
    assert not sealed.is_sealed(data)
    assert sealed.digest_of(data) is None


@pytest.mark.parametrize("data", [b"\x00", b"\x00k1", b"\x00k1\x00", b"\x00k1\x00x1"])
def test_what_only_begins_like_a_sealed_value_is_refused(data):
    with pytest.raises(BadData):
        sealed.split(data)


def test_each_kind_of_event_is_known_to_hold_the_users_data_or_the_engines():
    """Who adds a kind of event decides: data of the user's is sealed, and goes to ``PRIVATE``; what the engine needs to read
    without keys is not, and goes to the list above."""
    kinds = {kind for name, kind in vars(Kind).items() if not name.startswith("_")}

    assert kinds - PLAIN == PRIVATE
