"""The rows of the matrix: which torch, on which Python."""

import re
from dataclasses import dataclass

USUAL_PYTHON = "3.11"
TORCHES = {
    "2.6": "2.6.0",
    "2.7": "2.7.1",
    "2.8": "2.8.0",
    "2.9": "2.9.1",
    "2.10": "2.10.0",
    "2.11": "2.11.0",
    "2.12": "2.12.1",
    "2.13": "2.13.0",
    "2.14": "2.14.1",
    "2.15": "2.15.0",
}
"""By minor version the release that is tested."""
PYTHONS = ("3.10", "3.12", "3.13", "3.13t", "3.14", "3.14t", "3.15", "3.15t")
"""Those besides the usual one; ``t`` for builds without the GIL."""
ROWS = (
    *(f"torch-{version}" for version in TORCHES),
    *(f"python-{version}" for version in PYTHONS),
    "torch-2.14-python-3.10",
    "torch-2.15-python-3.12",
    "torch-2.15-python-3.13",
    "torch-2.15-python-3.14",
    "torch-2.15-python-3.14t",
    "torch-2.15-python-3.15",
)
"""What ``make matrix`` runs; any other combination of these versions is a row, too."""


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        name: as in ``ROW=``.
        torch: the release; "" for a row without torch.
        python: the version, such as 3.13t.
    """

    name: str
    torch: str
    python: str


def parse_row(name):
    """The row of a name.

    Raises:
        ValueError: there is none.
    """
    found = re.fullmatch(r"(?:torch-(\d+\.\d+))?-?(?:python-(\d+\.\d+t?))?", name)
    if not name or not found or found[1] not in (None, *TORCHES):
        raise ValueError(f"There is no row {name!r}. Rows are {', '.join(ROWS)}.")
    return Row(name, TORCHES.get(found[1], ""), found[2] or USUAL_PYTHON)
