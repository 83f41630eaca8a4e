"""Files that are no models, or dangerous ones, are refused by name."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.authoring.bpmn.reading import read_model
from holdfast.authoring.xml_reader import MAX_BYTES
from holdfast.errors import ModelUnreadable

BPMN = "http://www.omg.org/spec/BPMN/20100524/MODEL"
SMALL = f'<definitions xmlns="{BPMN}"><process id="p"><startEvent id="s"/></process></definitions>'
BOMB = (
    '<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>'
    f'<definitions xmlns="{BPMN}">&b;</definitions>'
)
REMOTE = f'<!DOCTYPE d SYSTEM "http://example.org/x.dtd"><definitions xmlns="{BPMN}"/>'
INCLUDED = (
    f'<definitions xmlns="{BPMN}"><i:include xmlns:i="http://www.w3.org/2001/XInclude"'
    ' href="file:///etc/passwd"/></definitions>'
)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no element"),
        (b"hello", "syntax error"),
        (SMALL[:-5].encode(), "not well-formed|unclosed token|no element"),
        (b"<html/>", "root"),
        (BOMB.encode(), "entities"),
        (REMOTE.encode(), "remote"),
        (INCLUDED.encode(), "remote"),
        (b'<?xml version="1.0" encoding="nonsense"?><a/>', "encoding"),
        (b"x" * MAX_BYTES, "too big"),
        (b"<a>" * 200 + b"</a>" * 200, "deep"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(data, reason):
    with pytest.raises(ModelUnreadable, match=reason):
        read_model(data)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_xml_is_read_or_refused_but_never_an_accident(data):
    text = SMALL.encode()
    place = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 12))
    noise = data.draw(st.binary(max_size=12))

    with contextlib.suppress(ModelUnreadable):
        read_model(text[:place] + noise + text[place + length :])
