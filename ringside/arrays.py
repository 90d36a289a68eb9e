"""The type of NumPy arrays of any dtype and shape."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
