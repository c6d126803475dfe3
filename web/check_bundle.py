"""Is the report's built bundle made from the sources beside this file? Needs no node.

    python web/check_bundle.py

Exits with 1, and says what to run, if src/opscope/report/bundle was built from other sources.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

WEB = Path(__file__).resolve().parent
BUNDLE = WEB.parent / "src" / "opscope" / "report" / "bundle"
ROOTS = (
    "package.json",
    "package-lock.json",
    "source_hash.ts",
    "tsconfig.json",
    "vite.config.ts",
    "src",
)
"""As in source_hash.ts."""


def source_hash(web: Path = WEB) -> str:
    """What source_hash.ts computes: names, lengths and contents of all sources."""
    digest = hashlib.sha256()
    for path in sorted(_files(web), key=lambda p: p.relative_to(web).as_posix()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(web).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _files(web: Path) -> list[Path]:
    found = []
    for root in ROOTS:
        path = web / root
        found += [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    return found


def recorded_hash(bundle: Path = BUNDLE) -> str:
    """The hash written beside the bundle when it was built."""
    return (bundle / "sources.sha256").read_text(encoding="ascii").strip()


def main() -> int:
    """Compare the two."""
    if recorded_hash() == source_hash():
        return 0
    print(
        "The report's bundle is stale: web/ has changed since src/opscope/report/bundle was built. "
        "Run: npm --prefix web ci && npm --prefix web run build",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
