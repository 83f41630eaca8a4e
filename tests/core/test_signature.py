"""Signatures: arguments and results go to the store and come back by their annotations."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import inspect
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypedDict, TypeVar, Unpack

import pytest

from holdfast.core.codec import JsonCodec
from holdfast.core.signature import Signature
from holdfast.errors import BadData, NotEncodable, WrongType

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]

codec = JsonCodec()
MOMENT = dt.datetime(2026, 2, 28, tzinfo=dt.UTC)

P = ParamSpec("P")
T = TypeVar("T")


@dataclasses.dataclass
class Order:
    id: int
    tags: set[str] = dataclasses.field(default_factory=set)


class Options(TypedDict, total=False):
    fast: bool


def plain(a, b=2, *, c=3): ...  # type: ignore[no-untyped-def]


def typed(
    order: Order,
    at: dt.datetime | None = None,
    *more: Order,
    urgent: bool = False,
    **extra: dt.date,
) -> list[Order]: ...  # type: ignore[empty-body]


def positional_only(order: Order, /, **extra: int) -> None: ...


def keyword_only(*, order: Order, at: dt.datetime = MOMENT) -> None: ...


def half_known(a: Unknown, b: Order, c: list[Unknown], d: dt.date) -> Unknown: ...


def there_and_back(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Any]:
    signature = Signature(fn)
    return signature.decode_args(codec, signature.encode_args(codec, args, kwargs))


def stored(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return json.loads(Signature(fn).encode_args(codec, args, kwargs))


@pytest.mark.parametrize(
    ("fn", "args", "kwargs"),
    [
        (plain, (1,), {}),
        (plain, ([1, {"a": None}], "x"), {}),
        (plain, (1,), {"c": 5}),
        (plain, (1, 2), {"c": 5}),
        (typed, (Order(1, {"x"}),), {}),
        (typed, (Order(1), None), {}),
        (typed, (Order(1), MOMENT, Order(2), Order(3)), {}),
        (typed, (Order(1),), {"urgent": True, "day": dt.date(2026, 1, 1)}),
        (positional_only, (Order(1),), {"order": 5}),
        (keyword_only, (), {"order": Order(1)}),
        (keyword_only, (), {"order": Order(1), "at": MOMENT}),
        (lambda: None, (), {}),
    ],
)
def test_arguments_come_back_by_their_annotations(
    fn: Callable[..., Any], args: Any, kwargs: Any
) -> None:
    assert there_and_back(fn, *args, **kwargs) == (args, kwargs)


def test_positional_arguments_are_stored_as_an_array() -> None:
    assert stored(plain, 1, [2]) == [1, [2]]
    assert stored(lambda: None) == []


def test_keyword_arguments_are_stored_beside_the_others() -> None:
    assert stored(plain, 1, c=3) == {"args": [1], "kwargs": {"c": 3}}


def test_the_same_call_is_stored_the_same_however_it_is_written() -> None:
    one, other = Signature(plain), (1, 2)

    assert (
        one.encode_args(codec, other, {})
        == one.encode_args(codec, (1,), {"b": 2})
        == one.encode_args(codec, (), {"b": 2, "a": 1})
    )


def test_a_default_that_is_skipped_stays_with_the_function() -> None:
    def three(a: int, b: int = 2, c: int = 3) -> None: ...

    assert stored(three, 1, c=5) == {"args": [1], "kwargs": {"c": 5}}
    assert there_and_back(three, 1, c=5) == ((1,), {"c": 5})


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((), {}, "missing a required argument: 'order'"),
        ((1, 2, 3), {}, "too many positional arguments"),
        ((1,), {"order": 1}, "multiple values"),
        ((1,), {"nonsense": 1}, "unexpected keyword argument 'nonsense'"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_with_the_name_of_the_function(
    args: Any, kwargs: Any, why: str
) -> None:
    def checkout(order: int, fast: bool = False) -> None: ...

    with pytest.raises(WrongType) as refused:
        Signature(checkout).encode_args(codec, args, kwargs)

    assert refused.value.facts["value"] == "checkout()"
    assert why in str(refused.value.facts["why"])


def test_a_missing_keyword_is_refused() -> None:
    with pytest.raises(WrongType):
        Signature(keyword_only).encode_args(codec, (), {})


@pytest.mark.parametrize(
    ("args", "kwargs", "value"),
    [
        (({"items": [0, object()]},), {}, "order['items'][1]: object"),
        ((Order(1), object()), {}, "at: object"),
        ((Order(1), None, Order(2), Order(object())), {}, "more.id: object"),  # type: ignore[arg-type]
        ((Order(1),), {"urgent": object()}, "urgent: object"),
        ((Order(1),), {"day": object()}, "day: object"),
        ((float("nan"),), {}, "order: nan"),
    ],
)
def test_an_argument_that_cannot_be_stored_is_named(args: Any, kwargs: Any, value: str) -> None:
    with pytest.raises(NotEncodable) as refused:
        Signature(typed).encode_args(codec, args, kwargs)

    assert refused.value.facts == {"value": value, "function": "typed"}


class Moody:
    """A codec that refuses only what is whole."""

    name = "moody"

    def encode(self, value: object, label: str = "value") -> bytes:
        if isinstance(value, tuple):
            raise NotEncodable(value="all of it")
        return b""

    def decode(self, data: bytes, type: object = Any, label: str = "value") -> Any:
        return [1]


def test_a_refusal_of_the_whole_stands_when_no_part_is_to_blame() -> None:
    with pytest.raises(NotEncodable, match="all of it"):
        Signature(plain).encode_args(Moody(), (1,), {})


def test_any_codec_will_do() -> None:
    assert Signature(plain).decode_args(Moody(), b"") == ((1,), {})


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b'[{"id": "x"}]', "argument 'order' of typed()"),
        (b'[{"id": 1}, "yesterday"]', "argument 'at' of typed()"),
        (b'[{"id": 1}, null, {"id": 2}, 5]', "argument 'more' of typed()"),
        (b'{"args": [{"id": 1}], "kwargs": {"urgent": 1}}', "argument 'urgent' of typed()"),
        (b'{"args": [{"id": 1}], "kwargs": {"day": 1}}', "argument 'extra' of typed()"),
        (b"[]", "typed()"),
        (b'{"kwargs": {}}', "typed()"),
        (b"5", "the arguments of typed()"),
        (b"null", "the arguments of typed()"),
        (b'{"order": {"id": 1}}', "the arguments of typed()"),
        (b'{"args": {}}', "the arguments of typed()"),
        (b'{"kwargs": []}', "the arguments of typed()"),
    ],
)
def test_stored_arguments_that_do_not_fit_are_refused_by_name(data: bytes, what: str) -> None:
    with pytest.raises(WrongType) as refused:
        Signature(typed).decode_args(codec, data)

    assert refused.value.facts["value"] == what


def test_arguments_written_by_hand_may_all_be_named() -> None:
    args, kwargs = Signature(typed).decode_args(
        codec, b'{"kwargs": {"at": "2026-02-28T00:00:00Z", "order": {"id": 1}}}'
    )

    assert (args, kwargs) == ((Order(1), MOMENT), {})


def test_broken_arguments_are_bad_data() -> None:
    with pytest.raises(BadData, match="the arguments of typed"):
        Signature(typed).decode_args(codec, b"[")


def test_arguments_that_fit_pass_the_check() -> None:
    assert Signature(typed).encode_checked(codec, (Order(1),), {}) == b'[{"id":1,"tags":[]}]'


@pytest.mark.parametrize("given", [("1",), (True,), (1.0,), (None,)])
def test_arguments_that_would_come_back_as_something_else_are_refused(
    given: tuple[object, ...],
) -> None:
    def count(number: int) -> None: ...

    assert Signature(count).encode_checked(codec, (1,), {}) == b"[1]"
    with pytest.raises(WrongType, match="argument 'number' of count"):
        Signature(count).encode_checked(codec, given, {})


def test_what_is_given_beyond_the_named_ones_is_checked_too() -> None:
    def add(first: int, *others: int) -> None: ...

    assert Signature(add).encode_checked(codec, (1, 2, 3), {}) == b"[1,2,3]"
    with pytest.raises(WrongType, match="argument 'others' of add"):
        Signature(add).encode_checked(codec, (1, 2, "3"), {})


def test_a_result_comes_back_by_its_annotation() -> None:
    assert Signature(typed).decode_result(codec, b'[{"id": 1}]') == [Order(1)]


def test_a_result_that_does_not_fit_is_refused() -> None:
    with pytest.raises(WrongType, match="the result of typed"):
        Signature(typed).decode_result(codec, b"5")


def test_an_async_function_returns_what_its_annotation_says() -> None:
    async def fetch() -> Order: ...  # type: ignore[empty-body]

    assert Signature(fetch).return_type is Order


@pytest.mark.parametrize("fn", [plain, keyword_only, lambda: 1])
def test_without_an_annotation_a_result_is_plain(fn: Callable[..., Any]) -> None:
    assert Signature(fn).return_type is Any
    assert Signature(fn).decode_result(codec, b'{"a":1}') == {"a": 1}


def test_one_unknown_name_does_not_spoil_the_others() -> None:
    signature = Signature(half_known)

    args, _ = signature.decode_args(codec, b'[{"x":1}, {"id":1}, [2], "2026-01-01"]')

    assert args == ({"x": 1}, Order(1), [2], dt.date(2026, 1, 1))
    assert signature.unresolved == ("a", "c", "return")
    assert signature.return_type is Any


def test_names_from_the_closure_are_known() -> None:
    @dataclasses.dataclass
    class Local:
        a: int

    def make(local: Local) -> Local:
        return Local(local.a)

    assert there_and_back(make, Local(1)) == ((Local(1),), {})
    assert Signature(make).unresolved == ()


def test_names_can_be_given() -> None:
    @dataclasses.dataclass
    class Local:
        a: int

    def make(local: Local) -> None: ...

    assert Signature(make).unresolved == ("local",)
    assert Signature(make, locals()).decode_args(codec, b'[{"a":1}]') == ((Local(1),), {})


def test_a_closure_over_what_is_not_yet_there_is_no_obstacle() -> None:
    def early(order: Order) -> Any:
        return late

    signature = Signature(early)
    late = 1

    assert early(Order(1)) == late
    assert signature.decode_args(codec, b'[{"id":1}]') == ((Order(1),), {})


def logged(fn: Callable[P, T]) -> Callable[P, T]:
    @functools.wraps(fn)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return fn(*args, **kwargs)

    return wrapper


class Shop(Generic[T]):
    def sell(self, order: Order, item: T) -> Order:
        return order

    def __call__(self, order: Order) -> Order:
        return order


@pytest.mark.parametrize(
    ("fn", "rest"),
    [
        (logged(lambda order: order), []),
        (logged(typed), []),
        (functools.partial(typed, urgent=True), []),
        (functools.partial(logged(typed), urgent=True), []),
        (Shop[int]().sell, [5]),
        (Shop[int](), []),
    ],
)
def test_wrappers_partials_methods_and_objects_are_read_through(
    fn: Callable[..., Any], rest: list[Any]
) -> None:
    signature = Signature(fn)

    args, _ = signature.decode_args(codec, codec.encode([{"id": 1}, *rest]))

    expected = Order(1) if signature.return_type is not Any else {"id": 1}
    assert args == (expected, *rest)
    assert signature.name


def test_a_builtin_can_be_read() -> None:
    assert Signature(sorted).decode_args(codec, b"[[2,1]]") == (([2, 1],), {})


def test_annotations_that_are_no_data_ask_for_nothing() -> None:
    def odd(*args: P.args, **kwargs: P.kwargs) -> NoReturn: ...  # type: ignore[empty-body, valid-type]

    def unpacked(**kwargs: Unpack[Options]) -> None: ...

    assert there_and_back(odd, 1, a=2) == ((1,), {"a": 2})
    assert Signature(odd).return_type is Any
    assert there_and_back(unpacked, fast=True) == ((), {"fast": True})


def test_a_type_variable_asks_for_nothing() -> None:
    def identity(value: T) -> T:
        return value

    assert there_and_back(identity, {"a": 1}) == (({"a": 1},), {})


def test_annotations_that_nothing_can_be_read_as_are_found_at_decoration() -> None:
    def bad_argument(data: bytes | str) -> None: ...

    def bad_result() -> Order | dict[str, int]: ...  # type: ignore[empty-body]

    Signature(typed).check_types()
    with pytest.raises(WrongType, match="argument 'data' of bad_argument"):
        Signature(bad_argument).check_types()
    with pytest.raises(WrongType, match="the result of bad_result"):
        Signature(bad_result).check_types()


def test_the_signature_is_read_only_once() -> None:
    def order(a: int) -> None: ...

    signature = Signature(order)
    order.__signature__ = inspect.Signature()  # type: ignore[attr-defined]

    assert signature.encode_args(codec, (1,), {}) == b"[1]"
    assert signature.decode_args(codec, b"[1]") == ((1,), {})
