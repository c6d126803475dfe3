"""Which torch a bridge is for: everything that decides whether the compiled library fits."""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# NDEBUG as in every torch release: torch's inline classes have other members without it.
FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-shared", "-fPIC", "-fvisibility=hidden")

# Builds of one release that differ in the devices they compute on, and not in the headers that the
# bridge includes: 2.13.0, 2.13.0+cpu, 2.13.0+cu130.
_RELEASE = re.compile(r"(\d+\.\d+\.\d+)(\+cpu|\+cu\d+)?")


@dataclass(frozen=True)
class TorchBuild:
    """One build of torch.

    Attributes:
        version: with what follows the release, as in ``2.13.0+cpu``.
        git: the commit that it was built from.
        cxx11_abi: whether it was built with the C++ library's newer ABI.
        folder: where its ``include`` and ``lib`` are.
    """

    version: str
    git: str
    cxx11_abi: bool
    folder: Path

    @classmethod
    def of(cls, torch: Any) -> TorchBuild:
        """Of the module ``torch``."""
        return cls(
            str(torch.__version__),
            str(torch.version.git_version),
            bool(torch.compiled_with_cxx11_abi()),
            Path(torch.__file__).parent,
        )

    def fingerprint(self, source: Path) -> dict[str, str]:
        """What a bridge to this torch, made from the sources in the folder ``source``, is known by.

        Not Python's version: the bridge includes nothing of Python and calls nothing of it.
        """
        content = hashlib.sha256()
        for file in sorted(path for path in source.rglob("*") if path.is_file()):
            content.update(str(file.relative_to(source)).encode())
            content.update(file.read_bytes())
        return {
            "torch": self.version,
            "torch_git": self.git,
            "cxx11_abi": str(int(self.cxx11_abi)),
            "platform": f"{sys.platform}-{platform.machine()}",
            "flags": " ".join(FLAGS),
            "source": content.hexdigest(),
        }


def release_of(version: str) -> str | None:
    """The release that torch ``version`` is a build of; None for builds of one's own."""
    known = _RELEASE.fullmatch(version)
    return known[1] if known else None
