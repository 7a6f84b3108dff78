from __future__ import annotations

import numpy as np
import pytest

from ndwire import Field, loads
from ndwire._contract import dtypes
from ndwire._reading import assembler
from ndwire._wires import spec
from support.modules import without


def test_the_table_is_looked_up_whatever_the_byte_order() -> None:
    for name, dtype in dtypes.DTYPES.items():
        assert dtypes.dtype_name(dtype) == name
        if dtype.isbuiltin == 1:
            assert dtypes.dtype_name(dtype.newbyteorder()) == name
    for other in ("O", "S3", "U1", "V2", "M8[s]", "m8", "i2,f4", "longdouble"):
        assert dtypes.dtype_name(np.dtype(other)) is None


def test_without_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = without("ml_dtypes", dtypes, monkeypatch)
    assert "bfloat16" not in module.DTYPES
    assert "float16" in module.DTYPES


def test_a_big_endian_host_swaps(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'[{"x":{"data":"AQA=","shape":[1],"dtype":"int16"}},{"x":{"data":"AQA=","shape":[1],"dtype":"int16"}}]'
    assert [item["x"].tolist() for item in loads(body, [Field("x")])] == [[1], [1]]
    monkeypatch.setattr(spec, "BIG_ENDIAN_HOST", True)
    monkeypatch.setattr(assembler, "BIG_ENDIAN_HOST", True)
    assert [item["x"].tolist() for item in loads(body, [Field("x")])] == [[256], [256]]
