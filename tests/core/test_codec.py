"""The codec: what is stored comes back the same, or is refused by name before it is stored."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import inspect
import math
import socket
import subprocess
import sys
import uuid
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.codec import Codec, JsonCodec, check_type, fit, same
from holdfast.errors import BadData, NotEncodable, WrongType

NAN, INF = float("nan"), float("inf")
codec: Codec = JsonCodec()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Address(TypedDict, total=False):
    street: str
    number: int


@dataclasses.dataclass
class Item:
    sku: str
    price: Decimal
    note: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Order:
    id: uuid.UUID
    items: list[Item]
    _secret: bytes = b""
    at: dt.datetime | None = None


class Shape(msgspec.Struct, tag=True):
    pass


class Circle(Shape):
    radius: float


class Square(Shape):
    side: int | msgspec.UnsetType = msgspec.UNSET


class Customer(pydantic.BaseModel):
    name: str
    born: dt.date | None = None
    key: bytes = b"k"
    score: float = 0.0


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, frozen=True)
    at: dt.datetime
    id: uuid.UUID


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    one: int = pydantic.Field(alias="uno")
    two: int = pydantic.Field(validation_alias="dos", serialization_alias="zwei")

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def both(self) -> int:
        return self.one + self.two


T = TypeVar("T")


class Box(pydantic.BaseModel, Generic[T]):
    content: T


class Names(pydantic.RootModel[list[str]]):
    pass


@dataclasses.dataclass
class Visit:
    customer: Customer
    others: dict[str, list[Customer]] = dataclasses.field(default_factory=dict)


class Name(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "another"


class Metres(float):
    pass


class Count(int):
    pass


UserId = NewType("UserId", int)

MOMENT = dt.datetime(2026, 2, 28, 12, 30, 15, 123456, tzinfo=dt.UTC)
ORDER = Order(
    uuid.UUID(int=7), [Item("a", Decimal("1.10")), Item("b", Decimal(2))], b"\xff\x00", MOMENT
)
ANNA = Customer(name="Anna", born=dt.date(1990, 1, 2))

ROUND_TRIPS: list[tuple[Any, Any]] = [
    (None, Any),
    (True, bool),
    (-0.0, float),
    (1e308, float),
    (2**63, int),
    (2**64, int),
    (-(2**100), int),
    (10**4000, Any),
    ("ü\u2028\x00😀", str),
    ({"a": [1, {"b": None}]}, Any),
    (b"\x00\xff", bytes),
    (bytearray(b"ab"), bytearray),
    ({1, 2}, set[int]),
    (frozenset({"a"}), frozenset[str]),
    ((1, "a"), tuple[int, str]),
    ((1, 2, 3), tuple[int, ...]),
    (Point(1, 2.5), Point),
    ([Point(1)], list[Point]),
    ({"street": "x"}, Address),
    ({1: 2}, dict[int, int]),
    ({uuid.UUID(int=1): 2}, dict[uuid.UUID, int]),
    ({dt.date(2026, 1, 1): 2}, dict[dt.date, int]),
    ({Colour.RED: 1}, dict[Colour, int]),
    (MOMENT, dt.datetime),
    (dt.datetime(2026, 1, 1), dt.datetime),
    (dt.date(2026, 1, 1), dt.date),
    (dt.time(1, 2, 3, 4), dt.time),
    (dt.timedelta(days=-3, microseconds=1), dt.timedelta),
    (uuid.UUID(int=5), uuid.UUID),
    (Decimal("0.10"), Decimal),
    (Colour.RED, Colour),
    (Size.LARGE, Size),
    (Right.READ | Right.WRITE, Right),
    (ORDER, Order),
    ([ORDER, None], list[Order | None]),
    (Circle(1.5), Circle | Square),
    (Square(), Circle | Square),
    ("a", Literal["a", "b"]),
    (5, int | str | None),
    (None, Order | None),
    (3, UserId),
    (3, Annotated[int, "positive"]),
    (Name("n"), Name),
    (Metres(2.5), Metres),
    (Count(3), Count),
    ([Count(3)], list[Count]),
    (ANNA, Customer),
    (ANNA, Customer | None),
    (None, Customer | None),
    ([ANNA], list[Customer]),
    ({"a": (ANNA, 1)}, dict[str, tuple[Customer, int]]),
    (Visit(ANNA, {"x": [ANNA]}), Visit),
    (Strict(at=MOMENT, id=uuid.UUID(int=1)), Strict),
    ([Strict(at=MOMENT, id=uuid.UUID(int=1))], list[Strict]),
    (Aliased(uno=1, dos=2), Aliased),  # type: ignore[call-arg]
    (Box[int](content=3), Box[int]),
    (Names(["a"]), Names),
    ([Names(["a"])], list[Names]),
    (ANNA, Customer | Names | None),
    ([Names(["a"]), ANNA, None], list[Customer | Names | None]),
    ({"a": 1}, Customer | dict[str, int]),
]


def kind_of(value: object) -> str:
    return type(value).__name__


@pytest.mark.parametrize(("value", "kind"), ROUND_TRIPS, ids=kind_of)
def test_a_value_comes_back_as_its_type(value: Any, kind: Any) -> None:
    back = codec.decode(codec.encode(value), kind)

    assert back == value
    assert type(back) is type(value)
    assert math.copysign(1, back) == math.copysign(1, value) if isinstance(value, float) else True


@pytest.mark.parametrize(("value", "kind"), ROUND_TRIPS, ids=kind_of)
def test_plain_data_fits_a_type_as_bytes_do(value: Any, kind: Any) -> None:
    back = fit(codec.decode(codec.encode(value)), kind)

    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("kind", [Any, object, None, type(None), inspect.Parameter.empty])
def test_without_a_type_data_comes_back_plain(kind: Any) -> None:
    assert codec.decode(codec.encode(Visit(ANNA)), kind) == {
        "customer": {"name": "Anna", "born": "1990-01-02", "key": "k", "score": 0.0},
        "others": {},
    }


json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(json)
def test_plain_data_comes_back_the_same(value: Any) -> None:
    assert codec.decode(codec.encode(value)) == value


@given(json)
def test_what_is_called_the_same_is_the_same(value: Any) -> None:
    back = codec.decode(codec.encode(value))

    assert not same(value) or (back == value and type(back) is type(value))
    assert same(value) is not isinstance(value, list | dict)


@given(
    st.datetimes()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.binary()
    | st.decimals(allow_nan=False)
)
def test_rich_scalars_come_back_the_same(value: Any) -> None:
    assert codec.decode(codec.encode([value]), list[type(value)]) == [value]  # type: ignore[misc]


def test_the_trip_is_saved_only_where_it_changes_nothing() -> None:
    assert (
        same(1)
        and same(1, int)
        and same(1, object)
        and same("a", str)
        and same(True, bool)
        and same(0.5, float)
    )
    assert same(None) and same(None, None)
    assert not same(1, float)
    assert not same(True, int)
    assert not same("red", Colour)
    assert not same(None, int)
    assert not same(NAN) and not same(INF)
    assert not same(Size.SMALL) and not same(Name("a")) and not same([]) and not same(b"")


class Opaque:
    pass


def holding(leaf: object) -> list[tuple[object, str]]:
    return [
        (leaf, "order"),
        ([1, leaf], "order[1]"),
        ((leaf,), "order[0]"),
        ({"items": [0, 1, leaf]}, "order['items'][2]"),
        ({1: {"a'b": leaf}}, 'order[1]["a\'b"]'),
        (Item("a", leaf), "order.price"),  # type: ignore[arg-type]
        (Circle(leaf), "order.radius"),  # type: ignore[arg-type]
        ([Point(1, leaf)], "order[0][1]"),  # type: ignore[arg-type]
        ({"a": None, "b": [[], {}, ANNA, Colour.RED, Square()], "c": leaf}, "order['c']"),
    ]


@pytest.mark.parametrize(("value", "path"), holding(Opaque()))
def test_the_first_part_that_cannot_be_stored_is_named(value: object, path: str) -> None:
    assert refusal(value) == f"{path}: Opaque"


@pytest.mark.parametrize(
    ("value", "path"), [*holding(NAN), ({"big": 2**70, "x": [None, NAN]}, "order['x'][1]")]
)
def test_a_number_that_json_cannot_write_is_named(value: object, path: str) -> None:
    assert refusal(value) == f"{path}: nan"


@pytest.mark.parametrize("number", [INF, -INF, Metres(INF)])
def test_infinity_is_refused_too(number: float) -> None:
    assert refusal([number]) == f"order[0]: {float(number)}"


@given(json, st.sampled_from([NAN, INF, -INF]), st.data())
def test_no_number_is_ever_lost_to_null(value: Any, number: float, data: st.DataObject) -> None:
    hidden = data.draw(
        st.sampled_from(
            [
                [value, number],
                {"a": value, "b": number},
                [[number], value],
                (value, {"x": [number]}),
            ]
        )
    )

    with pytest.raises(NotEncodable):
        codec.encode(hidden)


@pytest.mark.parametrize(
    "value",
    [
        [None, "null", b"\xcb\x7f\xf8\x00"],
        [None, 0xCB7FF800, Decimal("NaN")],
        {"null": 2**70},
        [
            None,
            Square(),
            dataclasses.make_dataclass("DataWithUnset", [("a", Any, msgspec.UNSET)])(),
        ],
    ],
    ids=kind_of,
)
def test_what_only_looks_like_such_a_number_is_stored(value: object) -> None:
    assert codec.decode(codec.encode(value)) is not None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (socket.socket, "order: type"),
        ({"a": {(1, 2): 3}}, "order['a']: a key of type tuple"),
        ({"a": {None: 3}}, "order['a']: a key of type NoneType"),
        ([lambda: 1], "order[0]: function"),
        (1j, "order: complex"),
        (range(3), "order: range"),
        (ValueError("x"), "order: ValueError"),
        (msgspec.UNSET, "order: UnsetType"),
        (["\ud800"], "order[0]: str: 'utf-8' codec can't encode"),
        ([10**5000], "order[0]: int: Exceeds the limit"),
        ([Customer(name="a", key=b"\xff")], "order[0]: Customer: 'utf-8' codec can't decode"),
        ({"c": Customer(name="a", score=NAN)}, "order['c'].score: nan"),
        (Box[Any](content=Opaque()), "order: Box[Any]: Unable to serialize unknown type"),
        (Customer.model_construct(name=5), "order: Customer: "),
        (Visit(Customer.model_construct(name="x", born=Opaque())), "order.customer: Customer: "),
        ({"k" * 100: Opaque()}, "order['" + "k" * 59 + "]: Opaque"),
    ],
    ids=kind_of,
)
def test_what_cannot_be_stored_is_said(value: object, said: str) -> None:
    assert refusal(value).startswith(said)


def test_data_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {"a": []}
    loop["a"].append(loop)

    assert refusal(loop) == "order['a'][0]: refers to itself"


def test_the_same_part_twice_is_no_loop() -> None:
    part = [1]

    assert codec.encode([part, part, {"a": part}]) == b'[[1],[1],{"a":[1]}]'
    assert refusal([part, part, Opaque()]) == "order[2]: Opaque"


def test_data_nested_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(50_000):
        deep = [deep]

    assert refusal(deep) == "order: nested too deep"


def test_the_value_is_called_value_unless_it_has_a_name() -> None:
    with pytest.raises(NotEncodable) as refused:
        codec.encode([Opaque()])

    assert refused.value.facts == {"value": "value[0]: Opaque"}


MISFITS: list[tuple[bytes, Any, str]] = [
    (b'"1"', int, "Expected `int`, got `str`"),
    (b"1.5", int, "Expected `int`, got `float`"),
    (b'[{"sku": 1}]', list[Item], "at `$[0].sku`"),
    (b'{"sku": "a"}', Item, "missing required field `price`"),
    (b'"green"', Colour, "Invalid enum value 'green'"),
    (b'"eA="', bytes, "base64"),
    (b"1", Opaque, "Expected `Opaque`, got `int`"),
    (b'{"name": 1}', Customer, "name: Input should be a valid string"),
    (b'[{"name": 1}]', list[Customer], "name: Input should be a valid string - at `$[0]`"),
    (b"5", Customer | Names, "valid"),
    (b'{"uno": 1, "dos": 2, "tres": 3}', Aliased, "tres: Extra inputs are not permitted"),
    (b'"a"', bytes | str, "more than one str-like type"),
    (b"1", Mixed, "Enums must contain either all str or all int values"),
    (b'"a"', Customer | bytes, "custom type"),
    (b'"a"', "int", "not supported"),
]


@pytest.mark.parametrize(("data", "kind", "why"), MISFITS, ids=kind_of)
def test_data_that_does_not_fit_is_of_the_wrong_type(data: bytes, kind: Any, why: str) -> None:
    with pytest.raises(WrongType) as refused:
        codec.decode(data, kind, label="the result")

    assert refused.value.facts["value"] == "the result"
    assert why in str(refused.value.facts["why"])
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("data", "kind", "why"), MISFITS, ids=kind_of)
def test_plain_data_that_does_not_fit_is_of_the_wrong_type(
    data: bytes, kind: Any, why: str
) -> None:
    with pytest.raises(WrongType) as refused:
        fit(codec.decode(data), kind, "the result")

    assert why in str(refused.value.facts["why"])


@pytest.mark.parametrize("kind", [Any, int, list[Item], Customer, Customer | Names, Mixed])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nul",
        b"\xff",
        b'"\xff"',
        b"NaN",
        b"1 2",
        b"['a']",
        b"[" * 100_000,
        b'[{"sku":1},',
        b"1e999",
    ],
    ids=kind_of,
)
def test_what_is_not_json_is_bad_data(data: bytes, kind: Any) -> None:
    with pytest.raises(BadData) as refused:
        codec.decode(data, kind, label="the result")

    assert refused.value.facts["value"] == "the result"


@dataclasses.dataclass
class Touchy:
    a: int

    def __post_init__(self) -> None:
        raise LookupError("never")


def test_a_constructor_that_raises_makes_the_type_wrong_and_is_shown() -> None:
    with pytest.raises(WrongType) as refused:
        codec.decode(b'{"a": 1}', Touchy)

    assert refused.value.facts["why"] == "LookupError: never"
    assert isinstance(refused.value.__cause__, LookupError)


@dataclasses.dataclass
class Greedy:
    a: int

    def __post_init__(self) -> None:
        if self.a:
            raise MemoryError


class GreedyModel(pydantic.BaseModel):
    def model_dump(self, **options: Any) -> dict[str, Any]:
        raise MemoryError


def test_a_lack_of_memory_is_no_fault_of_the_data() -> None:
    with pytest.raises(MemoryError):
        codec.encode(GreedyModel())
    with pytest.raises(MemoryError):
        codec.decode(b'{"a": 1}', Greedy)
    with pytest.raises(MemoryError):
        fit({"a": 1}, Greedy)


@pytest.mark.parametrize(
    "kind", [bytes | str, Mixed, Item | dict[str, int], "int", Customer | bytes]
)
def test_a_type_that_nothing_can_be_read_as_is_found_without_data(kind: Any) -> None:
    with pytest.raises(WrongType):
        check_type(kind, "the result")


@pytest.mark.parametrize("kind", [kind for _, kind in ROUND_TRIPS])
def test_a_type_that_can_be_read_is_let_through(kind: Any) -> None:
    check_type(kind)


def test_a_type_that_cannot_be_hashed_can_be_read() -> None:
    assert codec.decode(b"1", Annotated[int, []]) == 1


def test_an_alias_is_read_as_well_as_a_name() -> None:
    assert codec.decode(b'{"uno": 1, "dos": 2}', Aliased) == codec.decode(
        b'{"one": 1, "two": 2}', Aliased
    )


def test_subclasses_of_dict_and_list_are_stored_as_what_they_are_made_of() -> None:
    assert codec.encode(collections.OrderedDict(a=collections.Counter("xx"))) == b'{"a":{"x":2}}'


def test_pydantic_is_never_imported() -> None:
    program = (
        "import sys; from holdfast.core.codec import JsonCodec; c = JsonCodec();"
        "assert c.decode(c.encode([1, None]), list[int | None]) == [1, None];"
        "sys.exit('pydantic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def refusal(value: object) -> str:
    with pytest.raises(NotEncodable) as refused:
        codec.encode(value, label="order")
    return str(refused.value.facts["value"])
