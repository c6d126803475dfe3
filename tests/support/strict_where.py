"""``numpy.where`` as it is from NumPy 2.5 on, where an older one runs the tests.

``np.where(known, table["storage"], -1)`` of an unsigned column raises there, and wraps before:
NumPy 2.5 takes no number that the other argument's type has not.
"""

import functools

import numpy as np


def make_where_strict():
    """For the rest of the process."""
    if np.lib.NumpyVersion(np.__version__) >= "2.5.0":
        return
    wraps = np.where

    @functools.wraps(wraps)
    def where(condition, *values):
        for one, other in (values, values[::-1]) if len(values) == 2 else ():
            kind = getattr(other, "dtype", None)
            if type(one) is int and kind is not None and kind.kind in "ui":
                np.array(one, dtype=kind)  # OverflowError, in NumPy's own words
        return wraps(condition, *values)

    np.where = where
