"""Tokens: what was signed is told again, and nothing else is."""

import base64

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from holdfast.core import tokens
from holdfast.core.tokens import SigningKey
from holdfast.errors import BadOption, KeyExists, TokenExpired, TokenRefused, UsageError

KEY = SigningKey("k1", b"a secret of 16 bytes or more", 1)
OLD = SigningKey("k0", b"an older secret, long enough", 0, expires_at=100)
SAYS = {"gate": "g1", "choice": "yes"}


def test_what_was_signed_is_told_again():
    assert tokens.check(tokens.sign(KEY, "gate", SAYS), "gate", [OLD, KEY], now=50) == SAYS


def test_a_replaced_key_is_good_to_the_last_instant_of_its_grace_and_then_unknown():
    token = tokens.sign(OLD, "gate", SAYS)

    assert tokens.check(token, "gate", [OLD, KEY], now=100) == SAYS
    with pytest.raises(TokenRefused, match="not valid here"):
        tokens.check(token, "gate", [OLD, KEY], now=101)


def test_a_token_is_good_for_one_purpose_only():
    with pytest.raises(TokenRefused):
        tokens.check(tokens.sign(KEY, "gate", SAYS), "signal", [KEY], now=1)


def test_a_true_token_whose_time_is_over_says_so():
    token = tokens.sign(KEY, "gate", SAYS, until=10)

    assert tokens.check(token, "gate", [KEY], now=10) == SAYS
    with pytest.raises(TokenExpired):
        tokens.check(token, "gate", [KEY], now=11)


def test_an_unknown_key_a_wrong_signature_and_no_token_at_all_look_the_same():
    forged = tokens.sign(SigningKey("k1", b"some other secret, long enough", 1), "gate", SAYS)
    unknown = tokens.sign(SigningKey("k9", b"some other secret, long enough", 1), "gate", SAYS)
    told = set()
    for wrong in [
        forged,
        unknown,
        "",
        "x",
        "a.b.c",
        "a.b.c.d",
        "k1..",
        "k1.é.x",
        "k1." + "A" * 20_000 + ".x",
        None,
        7,
    ]:
        with pytest.raises(TokenRefused) as refused:
            tokens.check(wrong, "gate", [KEY], now=1)
        told.add((type(refused.value), str(refused.value)))

    assert len(told) == 1


@given(st.integers(0, 10_000), st.integers(0, 127))
def test_no_character_of_a_token_can_be_changed(place, code):
    token = tokens.sign(KEY, "gate", SAYS)
    place %= len(token)
    changed = token[:place] + chr(code) + token[place + 1 :]
    if changed == token or same_bits(changed, token):
        return

    with pytest.raises(TokenRefused):
        tokens.check(changed, "gate", [KEY], now=1)


def same_bits(one, other):
    """The last character of base64 has bits that mean nothing; only the signature may differ in
    them."""
    heads = [text.rpartition(".")[::2] for text in (one, other)]
    if heads[0][0] != heads[1][0] or one.count(".") != 2:
        return False
    try:
        first, second = (base64.urlsafe_b64decode(mac + "=" * (-len(mac) % 4)) for _, mac in heads)
    except ValueError:
        return False
    return first == second


def test_neither_a_key_nor_a_token_shows_its_secret():
    token = tokens.sign(KEY, "gate", SAYS)

    assert repr(KEY) == "<key k1>"
    assert repr(token) == "<token k1.***>"
    assert str(token) == token
    assert repr([token]) == "[<token k1.***>]"


def test_a_token_survives_json_as_text():
    token = tokens.sign(KEY, "gate", SAYS)

    assert msgspec.json.decode(msgspec.json.encode(str(token))) == token


def test_a_rotation_adds_the_key_and_drops_those_whose_time_is_over():
    rotated = tokens.rotate([OLD, KEY], "k2", b"the newest of the secrets", now=101)

    assert (rotated.added, rotated.dropped) == (
        SigningKey("k2", b"the newest of the secrets", 101),
        ["k0"],
    )


def test_the_same_key_again_is_no_rotation():
    assert tokens.rotate([OLD, KEY], "k1", KEY.secret, now=1).added is None


def test_a_key_whose_time_is_over_may_come_back():
    assert tokens.rotate([OLD, KEY], "k0", OLD.secret, now=101).added == SigningKey(
        "k0", OLD.secret, 101
    )


def test_another_secret_for_a_known_key_is_refused():
    with pytest.raises(KeyExists):
        tokens.rotate([KEY], "k1", b"some other secret, long enough", now=1)


@pytest.mark.parametrize("kid", ["", "a.b", "a b", "é", "a" * 65, None, "a\n"])
def test_a_key_has_a_name_that_fits_into_a_token(kid):
    with pytest.raises(BadOption):
        tokens.checked_kid(kid)


@pytest.mark.parametrize("secret", [b"short", b"x" * 257, "a text that is long enough", None])
def test_a_secret_is_long_enough_and_is_not_told(secret):
    with pytest.raises(BadOption) as refused:
        tokens.checked_secret(secret)

    assert "long" not in str(refused.value)
    assert "short" not in str(refused.value)


def test_a_grace_has_bounds():
    with pytest.raises(BadOption):
        tokens.checked_grace("3651d")
    with pytest.raises(UsageError):
        tokens.checked_grace(-1)

    assert tokens.checked_grace("0s") == 0
    assert tokens.checked_grace("3650d") == tokens.LONGEST_GRACE
