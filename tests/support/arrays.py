"""Arrays as servers send them."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np


def npy_string(array: Any) -> str:
    """Return an array as the base64 of a ``.npy`` file."""
    file = io.BytesIO()
    np.save(file, array)
    return base64.b64encode(file.getvalue()).decode()
