from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from ndwire import Field, Limits, Parser, loads
from ndwire._scanning.registry import registry_of


@pytest.mark.parametrize(
    "name",
    ["", "  ", "\t\n", ",x", " :x", "]", "}x", 'a"b', "a\\b", "a\x00", "a\nb", "\x1f", "\ud800", 3, None, b"x"],
)
def test_names_that_json_text_could_not_be_told_from(name: Any) -> None:
    with pytest.raises(ValueError, match="cannot be named"):
        Field(name)


@pytest.mark.parametrize("name", ["x", "a b", "{", "[x", "größe", "日本", "😀", "a/b", "data", "x.y", "$", "'"])
def test_names_that_work(name: str) -> None:
    array = np.arange(3, dtype=np.uint8)
    for key in (name, ascii(name)[1:-1] if name.isascii() else name.encode("ascii", "backslashreplace").decode()):
        if "U000" in key or "\\x" in key:
            continue
        body = b'{"' + key.encode() + b'":{"data":"AAEC","shape":[3],"dtype":"uint8"}}'
        np.testing.assert_array_equal(loads(body, [Field(name)])[name], array)


def test_a_name_outside_the_basic_plane_in_python_s_spelling() -> None:
    body = rb'{"\ud83d\ude00":{"data":"AAEC","shape":[3],"dtype":"uint8"}}'
    assert loads(body, [Field("😀")])["😀"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dtypes": ["int7"]}, "'int7' is not a dtype"),
        ({"dtypes": [np.int8]}, "is not a dtype"),
        ({"dtypes": "int8"}, "sequence of names"),
        ({"wires": "npy"}, "sequence of names"),
        ({"wires": ["json"]}, "'json' is not a wire"),
        ({"raw_dtype": "object"}, "'object' is not a dtype"),
        ({"raw_shape": (-1, -1)}, "one -1"),
        ({"raw_shape": (-2,)}, "one -1"),
        ({"raw_shape": (1,) * 65}, "one -1"),
        ({"raw_shape": ("a",)}, "sequence of integers"),
        ({"raw_shape": 3}, "sequence of integers"),
        ({"ndim": -1}, "ndim must be"),
        ({"ndim": 65}, "ndim must be"),
        ({"ndim": True}, "ndim must be"),
        ({"ndim": 2, "raw_dtype": "int8"}, "has not 2 dimensions"),
        ({"nulls": "NaN"}, 'nulls must be "nan" or None'),
        ({"nulls": True}, 'nulls must be "nan" or None'),
    ],
)
def test_configurations_that_cannot_work(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Field("x", **arguments)


def test_a_check_that_cannot_be_called() -> None:
    with pytest.raises(TypeError, match="must be callable"):
        Field("x", check=3)  # type: ignore[arg-type]  # the point of the test


def test_a_dtype_that_needs_ml_dtypes_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from ndwire._contract import dtypes

    monkeypatch.delitem(dtypes.DTYPES, "bfloat16", raising=False)
    with pytest.raises(ValueError, match="needs the package ml_dtypes"):
        Field("x", dtypes=["bfloat16"])


def test_fields_are_values() -> None:
    left, right = Field("x", dtypes=["int8"], raw_shape=[-1, 2]), Field("x", dtypes=("int8",), raw_shape=(-1, 2))
    assert left == right
    assert hash(left) == hash(right)
    with pytest.raises(AttributeError):
        left.name = "y"  # type: ignore[misc]  # the point of the test


def _check(array: Any) -> None:
    """A check that can be pickled."""


FULL = Field("größe", dtypes=["int8"], ndim=1, wires=["npy"], raw_dtype="int8", sidecar=True, check=_check)


@pytest.mark.parametrize("field", [Field("x"), FULL])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_copies_are_equal(field: Field, protocol: int) -> None:
    for again in (pickle.loads(pickle.dumps(field, protocol)), copy.copy(field), copy.deepcopy(field)):
        assert again == field
        assert {field: 1}[again] == 1


def test_a_pickled_field_is_equal_in_another_process() -> None:
    field = Field("x", dtypes=["int8"], raw_shape=[-1, 2])
    program = "import sys, pickle; sys.stdout.buffer.write(pickle.dumps(pickle.loads(sys.stdin.buffer.read())))"
    for seed in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-c", program],
            input=pickle.dumps(field),
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        )
        again = pickle.loads(result.stdout)
        assert again == field
        assert hash(again) == hash(field)
        assert {field: 1}[again] == 1


def test_a_field_is_judged_anew_where_it_is_unpickled(monkeypatch: pytest.MonkeyPatch) -> None:
    from ndwire._contract import dtypes

    if "bfloat16" in dtypes.DTYPES:
        data = pickle.dumps(Field("x", dtypes=["bfloat16"]))
        monkeypatch.delitem(dtypes.DTYPES, "bfloat16")
        with pytest.raises(ValueError, match="needs the package ml_dtypes"):
            pickle.loads(data)


def test_configurations_are_shown_in_short() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    options: dict[str, Any] = {"dtypes": [deep], "wires": [deep], "ndim": deep, "raw_shape": deep, "raw_dtype": deep}
    for option, value in options.items():
        arguments: dict[str, Any] = {option: value}
        with pytest.raises(ValueError, match=r"\[\[\[\.\.\.|\[\[\[\[") as caught:
            Field("x", **arguments)
        assert len(str(caught.value)) < 400
    with pytest.raises(ValueError, match="cannot be named"):
        Field(deep)
    with pytest.raises(ValueError, match="ndim must be"):
        Limits(ndim=deep)


def test_a_registry_refuses_a_name_twice() -> None:
    with pytest.raises(ValueError, match="registered twice"):
        Parser([Field("x"), Field("x", ndim=1)])


def test_a_registry_holds_fields_only() -> None:
    with pytest.raises(TypeError, match="not of str"):
        Parser(["x"])  # type: ignore[list-item]  # the point of the test


def test_an_empty_registry_reads_plain_json() -> None:
    assert loads(b'{"x":{"data":"AAEC","shape":[3],"dtype":"uint8"}}', []) == {
        "x": {"data": "AAEC", "shape": [3], "dtype": "uint8"}
    }
    assert Parser(()).feed(b'{"') == []


def test_registries_are_compiled_once() -> None:
    fields = (Field("x"), Field("y"))
    assert registry_of(fields) is registry_of(list(fields))


def test_a_check_that_cannot_be_hashed_still_works() -> None:
    class Check:
        __hash__ = None  # type: ignore[assignment]  # the point of the test

        def __call__(self, array: Any) -> None:
            raise ValueError("no")

    check = Check()
    registry = registry_of([Field("x", check=check)])
    assert registry is registry_of([Field("x", check=check)])
    assert registry is not registry_of([Field("x", check=Check())])
    with pytest.raises(TypeError, match="not of list"):
        Parser([["x"]])  # type: ignore[list-item]  # the point of the test


@pytest.mark.parametrize("value", [-1, 1.5, True, "1", None])
@pytest.mark.parametrize(
    "name", ["array_bytes", "total_array_bytes", "arrays", "remainder_bytes", "list_bytes", "ndim"]
)
def test_limits_are_counts(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(**{name: value})


def test_the_tails_that_are_remembered_are_bounded() -> None:
    registry = registry_of([Field("bounded")])
    for number in range(300):
        body = b'{"bounded":{"data":"AAEC","shape":[3],"dtype":"uint8","start":%d}}' % number
        assert loads(body, [Field("bounded")])["bounded"].tolist() == [0, 1, 2]
    assert len(registry.entries[b"bounded"].tails) <= 128
