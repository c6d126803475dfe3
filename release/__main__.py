"""``python -m release``: build, check and try all that is released, into a folder.

It releases the commit that is checked out, whatever else lies in the folder. A CI service that
publishes runs it in an image whose C library is as old as that of the systems it is for, and signs
the result.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path

from release.bridges import MadeBridges, make_bridges
from release.headers import listed
from release.running import ReleaseError, run
from release.trial import Tried, try_wheel
from release.vouching import sha256, write_checksums, write_statement
from release.wheels import (
    REQUIREMENTS,
    Builder,
    bridge_source_of,
    make_aarch64_wheel,
    make_archive,
    make_builder,
    make_wheel,
    tag_for_many,
    unpack,
)

_ROOT = Path(__file__).parents[1]
_MOST_BYTES = 10_000_000
_began = time.monotonic()


def main() -> int:
    """Make a release; exits with 1 and says why if anything is not as it should be."""
    options = _parse()
    try:
        _release(options)
    except ReleaseError as error:
        print(f"not released: {error}", file=sys.stderr)
        return 1
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--output", type=Path, default=_ROOT / "dist")
    parser.add_argument("--work", type=Path, default=_ROOT / "build" / "release")
    parser.add_argument(
        "--python", action="append", help="an interpreter to build for; several times for several"
    )
    parser.add_argument(
        "--aarch64", action="store_true", help="also wheels for aarch64, with a cross compiler"
    )
    parser.add_argument(
        "--torch-releases", help="only these, with commas, instead of torch_releases.json; or none"
    )
    parser.add_argument(
        "--try-with",
        action="append",
        default=[],
        metavar="TAG=TORCH",
        help="record with that torch when trying that wheel, as in cp311=2.13.0",
    )
    return parser.parse_args()


def _release(options: argparse.Namespace) -> None:
    began = datetime.now(timezone.utc)
    work, output = options.work.absolute(), options.output.absolute()
    _empty(output)
    _empty(*work.glob("core-*"))
    commit = run(["git", "rev-parse", "HEAD"], folder=_ROOT).strip()
    # The same files give the same archives, whenever it is done.
    os.environ["SOURCE_DATE_EPOCH"] = run(
        ["git", "log", "-1", "--format=%ct"], folder=_ROOT
    ).strip()
    interpreters = options.python or [sys.executable]
    builders = [make_builder(interpreter, work) for interpreter in interpreters]

    archive = make_archive(builders[0], _sources(work / "sources"), output)
    _say(f"{archive.name}: {archive.stat().st_size:,} B")
    sources = unpack(archive, work / "unpacked")
    bridges = _bridges(options.torch_releases, builders[0], sources, work)
    shipped = None if bridges is None else bridges.folder
    wheels = {}
    for builder, interpreter in zip(builders, interpreters, strict=True):
        plain = make_wheel(builder, sources, work / "plain", shipped)
        wheel, policy = tag_for_many(builder, plain, output)
        _say(f"{wheel.name}: {wheel.stat().st_size:,} B, keeps to {policy}")
        if wheel.stat().st_size > _MOST_BYTES:
            raise ReleaseError(f"{wheel.name} has more than {_MOST_BYTES:,} B")
        wheels[wheel] = (builder.tag, interpreter)
    for_others = []
    for builder in builders if options.aarch64 else ():
        plain = make_aarch64_wheel(builder, sources, work / "plain")
        wheel, policy = tag_for_many(builder, plain, output)
        _say(f"{wheel.name}: {wheel.stat().st_size:,} B, keeps to {policy}; cannot be tried here")
        for_others.append(wheel)

    torches = dict(word.partition("=")[::2] for word in options.try_with)
    tried = [
        _try(wheel, interpreter, torches.get(tag)) for wheel, (tag, interpreter) in wheels.items()
    ]
    _vouch([archive, *wheels, *for_others], output, commit, bridges, tried, began)
    _say(f"released into {output}")


def _empty(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)


def _sources(folder: Path) -> Path:
    """What is committed, and nothing else."""
    _empty(folder)
    packed = folder.with_suffix(".tar")
    run(["git", "archive", "--format=tar", f"--output={packed}", "HEAD"], folder=_ROOT)
    run(["tar", "-xf", packed, "-C", folder])
    packed.unlink()
    return folder


def _bridges(asked: str | None, builder: Builder, sources: Path, work: Path) -> MadeBridges | None:
    """Those asked for, from the sources that a wheel has without them."""
    if asked == "none":
        return None
    releases = listed()
    if asked is not None:
        names = asked.split(",")
        releases = [release for release in releases if release.release in names]
        if len(releases) != len(names):
            raise ReleaseError(f"not all of {asked} are in torch_releases.json")
    plain = make_wheel(builder, sources, work / "plain", None)
    _say(f"{plain.name}: {plain.stat().st_size:,} B without bridges")
    made = make_bridges(releases, bridge_source_of(plain, work / "bridge_source"), work, _say)
    sizes = [library.stat().st_size for library in made.folder.glob("*.so")]
    _say(f"{len(sizes)} bridges: {sum(sizes):,} B")
    return made


def _try(wheel: Path, interpreter: str, torch: str | None) -> Tried:
    tried = try_wheel(wheel, interpreter, torch)
    _say(
        f"{wheel.name} tried with {f'torch {torch}' if torch else 'no torch'}: installed in "
        f"{tried.installed_s:.1f} s, then {tried.until_summary_s:.1f} s to the first summary "
        f"(of processors: {tried.installed_cpu_s:.1f} s and {tried.until_summary_cpu_s:.1f} s)"
    )
    return tried


def _vouch(
    files: list[Path],
    output: Path,
    commit: str,
    bridges: MadeBridges | None,
    tried: list[Tried],
    began: datetime,
) -> None:
    pinned = REQUIREMENTS / "release.txt"
    materials = [(f"requirements/{pinned.name}", sha256(pinned))]
    materials += bridges.torch_wheels if bridges else []
    statement = write_statement(
        files,
        output,
        commit=commit,
        materials=materials,
        parameters={
            "wheels": [asdict(one) for one in tried],
            "noBridgeFor": sorted(bridges.missing) if bridges else [],
        },
        began=began,
    )
    write_checksums([*files, statement], output)


def _say(text: str) -> None:
    print(f"[{time.monotonic() - _began:5.0f} s] {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
