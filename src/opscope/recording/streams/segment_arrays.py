"""Columns in a file of a segment: one-dimensional arrays of plain numbers, and nothing else.

NumPy's own reader makes room for what a file says, which may be more than it has.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

_SUFFIX = ".npy"


def write_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """For :func:`read_arrays`."""
    members: dict[str, Any] = dict(arrays)
    np.savez(path, **members)


def read_arrays(file: BinaryIO, dtypes: Mapping[str, str]) -> Arrays:
    """The arrays of these names and types."""
    most = os.fstat(file.fileno()).st_size
    try:
        with zipfile.ZipFile(file) as arrays:
            return {
                name: _array(_member(arrays, name + _SUFFIX, most), dtype)
                for name, dtype in dtypes.items()
            }
    except zipfile.BadZipFile as error:
        raise ValueError(str(error)) from error


def _member(file: zipfile.ZipFile, name: str, most: int) -> bytes:
    """One that is packed could be any size."""
    about = file.getinfo(name)
    if about.compress_type != zipfile.ZIP_STORED or about.file_size > most:
        raise ValueError(f"{name} is larger than its file")
    return file.read(about)


def _array(content: bytes, dtype: str) -> npt.NDArray[Any]:
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("an array is of another version")
    shape, _, found = np.lib.format.read_array_header_1_0(file)
    values = content[file.tell() :]
    if found != np.dtype(dtype) or len(shape) != 1 or len(values) != shape[0] * found.itemsize:
        raise ValueError(f"an array is not {dtype}, or not as long as it says")
    if dtype == "bool" and values.translate(None, b"\0\1"):
        raise ValueError("a flag is neither 0 nor 1")
    return np.frombuffer(values, found)
