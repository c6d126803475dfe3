"""Building the source archive and, from it, a wheel for each Python."""

from __future__ import annotations

import re
import shutil
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from release.running import ReleaseError, run

REQUIREMENTS = Path(__file__).parents[1] / "requirements"
# Torch's own libraries, which are loaded by then: nothing that a wheel could bring.
_TORCHS = ("libtorch_cpu.so", "libc10.so")
_AARCH64 = Path(__file__).parent / "aarch64.cmake"
_MAKE_ARCHIVE = "import sys; from scikit_build_core.build import build_sdist as b; b(sys.argv[1])"


@dataclass(frozen=True)
class Builder:
    """An environment of one Python that has what building takes.

    Attributes:
        python: its interpreter.
        tag: as in wheels, ``cp312``.
        core: the folder that its core is compiled in, so that a second wheel takes a moment.
    """

    python: Path
    tag: str
    core: Path


def make_builder(interpreter: str, work: Path) -> Builder:
    """Make the environment for ``interpreter``, in a folder of its own in ``work``.

    Raises:
        ReleaseError: there is no such interpreter, or what building takes cannot be had.
    """
    say_tag = "import sys; print(f'cp{sys.version_info[0]}{sys.version_info[1]}')"
    tag = run([interpreter, "-c", say_tag]).strip()
    folder = work / f"builder-{tag}"
    python = folder / "bin" / "python"
    if not python.exists():
        run([interpreter, "-m", "venv", folder])
    run([python, "-m", "pip", "install", "--quiet", "-r", REQUIREMENTS / "release.txt"])
    return Builder(python, tag, work / f"core-{tag}")


def make_archive(builder: Builder, sources: Path, result: Path) -> Path:
    """Make the source archive of the folder ``sources``.

    Raises:
        ReleaseError: it cannot be made.
    """
    before = set(result.glob("*.tar.gz"))
    run([builder.python, "-c", _MAKE_ARCHIVE, result.resolve()], folder=sources)
    made = set(result.glob("*.tar.gz")) - before
    if len(made) != 1:
        raise ReleaseError(f"{result} has {len(made)} new source archives")
    return made.pop()


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack a source archive into ``folder``, anew; gives the folder with ``pyproject.toml``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return root


def make_wheel(builder: Builder, sources: Path, result: Path, bridges: Path | None) -> Path:
    """Compile and pack a wheel, with the bridges of a folder if there are any.

    Raises:
        ReleaseError: it cannot be built.
    """
    shipped = "" if bridges is None else bridges.resolve()
    asked = {"cmake.define.OPSCOPE_PREBUILT_BRIDGES": shipped}
    return _make_wheel(builder, sources, result, builder.core, asked, {})


def _make_wheel(
    builder: Builder,
    sources: Path,
    result: Path,
    core: Path,
    more: Mapping[str, str | Path],
    variables: Mapping[str, str],
) -> Path:
    shutil.rmtree(result, ignore_errors=True)
    settings = {
        "build-dir": core.resolve(),
        "cmake.define.OPSCOPE_BRINGS_ITS_CXX": "ON",
        **more,
    }
    asked = [f"--config-settings={key}={value}" for key, value in settings.items()]
    run(
        [builder.python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"],
        ["--wheel-dir", result, *asked, sources],
        variables=variables,
    )
    (wheel,) = result.glob("*.whl")
    return wheel


def make_aarch64_wheel(builder: Builder, sources: Path, result: Path) -> Path:
    """Compile and pack a wheel for aarch64, on a machine of another kind; it has no bridges.

    Python's headers are those of this machine: all that matters in them is the same on both.

    Raises:
        ReleaseError: there is no cross compiler, or it cannot be built.
    """
    core = builder.core.with_name(f"{builder.core.name}-aarch64")
    asked = {"cmake.define.CMAKE_TOOLCHAIN_FILE": _AARCH64}
    variables = {
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{builder.tag[2:]}-aarch64-linux-gnu.so",
    }
    return _make_wheel(builder, sources, result, core, asked, variables)


def bridge_source_of(wheel: Path, folder: Path) -> Path:
    """The sources of the bridge that ``wheel`` ships, unpacked into ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel) as content:
        inside = [name for name in content.namelist() if "/bridge_source/" in name]
        content.extractall(folder, inside)
    return folder / "opscope" / "bridge_source"


def tag_for_many(builder: Builder, wheel: Path, result: Path) -> tuple[Path, str]:
    """Have auditwheel look at all that ``wheel`` needs of a system, and name it after that.

    Returns:
        The wheel under its name, and the policy that it keeps to (``manylinux_2_34_x86_64``).

    Raises:
        ReleaseError: no policy allows what it needs.
    """
    excluded = [word for name in _TORCHS for word in ("--exclude", name)]
    before = set(result.glob("*.whl"))
    run(
        [builder.python, "-m", "auditwheel", "repair", *excluded],
        ["--wheel-dir", result, wheel],
        variables={"PATH": f"{builder.python.parent}:/usr/bin:/bin"},  # it runs patchelf
    )
    made = set(result.glob("*.whl")) - before
    if len(made) != 1:
        raise ReleaseError(f"{result} has {len(made)} new wheels")
    repaired = made.pop()
    policy = re.search(r"manylinux_\d+_\d+_\w+?(?=\.|$)", repaired.stem)
    if policy is None or any(".libs/" in name for name in zipfile.ZipFile(repaired).namelist()):
        raise ReleaseError(f"auditwheel made {repaired.name}, which is not for many systems as is")
    return repaired, policy[0]
