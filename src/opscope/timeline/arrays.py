"""Types of arrays that several files use."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Amounts = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int32]
