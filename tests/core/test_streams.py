"""What the patches of a summary come to, and how many frames of best effort are kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.streams.rules import (
    CEILING,
    DEEPEST,
    FLOOR,
    FrameRate,
    merge,
    null,
    plain,
    split,
)
from holdfast.errors import BadPatch

SECOND = 1_000_000


def patched(document, *patches):
    for patch in patches:
        document = merge(document, *plain(patch))
    return document


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": None}, {}),
        ({"a": 1}, {"b": None}, {"a": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": 3}}, {"a": {"c": 2, "d": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": "x"}, {"a": {"b": None}}, {"a": {}}),
        ({"a": {"b": 1}}, {"a": "x"}, {"a": "x"}),
        ({}, {"a": null}, {"a": None}),
        ({"a": 1}, {"a": null}, {"a": None}),
        ({"a": None}, {"a": None}, {}),
        ({"a": {"b": 1}}, {"a": {"b": null, "c": None}}, {"a": {"b": None}}),
        ({}, {"a": [None, null, {"b": null}]}, {"a": [None, None, {"b": None}]}),
        ({}, {"a": "__null__", "b": "null"}, {"a": "__null__", "b": "null"}),
        ({}, {"": null, "a.b": null}, {"": None, "a.b": None}),
    ],
)
def test_a_patch_changes_a_document(document, patch, expected):
    assert patched(document, patch) == expected


def test_what_is_patched_stays_as_it_was():
    document = {"a": {"b": 1}}
    patched(document, {"a": {"b": None}})

    assert document == {"a": {"b": 1}}


@pytest.mark.parametrize("patch", [1, "x", None, [1], null])
def test_only_an_object_is_a_patch(patch):
    with pytest.raises(BadPatch):
        plain(patch)


def test_a_patch_has_names_and_is_not_too_deep():
    deep = leaf = {}
    for _ in range(DEEPEST):
        leaf["a"] = leaf = {}
    with pytest.raises(BadPatch, match="deeper"):
        plain(deep)
    with pytest.raises(BadPatch, match="name of a field"):
        plain({1: 2})


LEAVES = st.none() | st.booleans() | st.integers() | st.text()
VALUES = st.recursive(
    LEAVES, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(), v, max_size=3)
)


def explicit(value):
    """The same document, told as a patch that says null where it means it."""
    return {
        name: null if one is None else explicit(one) if isinstance(one, dict) else one
        for name, one in value.items()
    }


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_every_document_can_be_told_as_a_patch(document):
    assert patched({}, explicit(document)) == document


def test_twice_as_many_are_kept_as_come_while_they_count():
    rate, now, kept = FrameRate(), 0, 0
    for _ in range(200):
        now += SECOND // 100
        kept = rate.came(now, 10 * SECOND)

    assert 1980 <= kept <= 2020


def test_what_is_kept_has_a_floor_and_a_ceiling():
    slow, fast = FrameRate(), FrameRate()

    assert [slow.came(now * 60 * SECOND, SECOND) for now in range(1, 20)][-1] == FLOOR
    assert [fast.came(1, 10 * SECOND) for _ in range(100)][-1] == CEILING
    assert FrameRate().came(0, SECOND) == FLOOR


@pytest.mark.parametrize(
    ("patch", "sets", "deleted"),
    [
        ({"a": None}, {}, [["a"]]),
        ({"a": null}, {"a": None}, []),
        (
            {"a": {"b": None, "c": null, "d": 1}, "e": None},
            {"a": {"c": None, "d": 1}},
            [["a", "b"], ["e"]],
        ),
        ({"a": {"b": None}}, {}, [["a", "b"]]),
        ({"a": {}}, {"a": {}}, []),
        ({"a": [None, null]}, {"a": [None, None]}, []),
        ({}, {}, []),
    ],
)
def test_a_null_that_is_set_is_told_from_one_that_deletes(patch, sets, deleted):
    assert split(*plain(patch)) == (sets, deleted)
