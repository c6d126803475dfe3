"""Libraries of CUDA that do nothing, so that a torch built for CUDA can be imported without them.

torch's wheels for Linux are built for CUDA, whose libraries are gigabytes in packages of their
own. What is linked against is read from torch's libraries themselves: names of libraries that are
nowhere here, and the symbols that nobody defines. Each stub has these symbols and answers every
call with "there is no device", as on a machine without a GPU.
"""

import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

NO_DEVICE = 100
"""``cudaErrorNoDevice``, which is ``CUDA_ERROR_NO_DEVICE`` too."""


@dataclass
class Library:
    """What the dynamic linker knows of one of torch's libraries.

    Attributes:
        needs: names of the libraries that it is linked against.
        defines: names of its symbols.
        lacks: names of symbols that others have to define, each with its version or "".
        version_of: by version, the library that has it.
    """

    needs: list[str] = field(default_factory=list)
    defines: set[str] = field(default_factory=set)
    lacks: list[tuple[str, str]] = field(default_factory=list)
    version_of: dict[str, str] = field(default_factory=dict)


def read_library(path):
    """What readelf says of a library."""
    library = Library()
    for line in _readelf("--dynamic", path):
        if found := re.search(r"\(NEEDED\).*\[(.+)\]", line):
            library.needs.append(found[1])
    needed = ""
    for line in _readelf("--version-info", path):
        if found := re.search(r"Version: \d+\s+File: (\S+)", line):
            needed = found[1]
        elif needed and (found := re.search(r"Name: (\S+)\s+Flags", line)):
            library.version_of[found[1]] = needed
    for line in _readelf("--dyn-syms", path):
        parts = line.split()
        if len(parts) < 8 or not parts[0].endswith(":"):
            continue
        name, _, version = parts[7].partition("@")
        if parts[6] != "UND":
            library.defines.add(name)
        elif parts[4] == "GLOBAL":  # what is weak may be absent
            library.lacks.append((name, version))
    return library


def _readelf(what, path):
    done = subprocess.run(
        ["readelf", "--wide", what, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def missing_symbols(libraries, is_here):
    """By missing library the symbols it has to have, each with its version or "".

    Args:
        libraries: by name, torch's own.
        is_here: whether the system has a library of a name.
    """
    defined = set().union(*(library.defines for library in libraries.values()))
    found = defaultdict(dict)
    for library in libraries.values():
        absent = [name for name in library.needs if name not in libraries and not is_here(name)]
        for name in absent:
            found[name]  # also one that nothing is taken of has to be there
        for symbol, version in library.lacks:
            home = library.version_of.get(version, "")
            if home in absent:
                found[home][symbol] = version
            elif absent and not home and symbol not in defined and not _is_of_the_system(symbol):
                found[absent[0]][symbol] = ""
    return found


def _is_of_the_system(symbol):
    """Whether it is of Python or of C++, and not of a library for C."""
    return symbol.startswith(("Py", "_Py", "_Z", "__cxa", "__gxx", "_Unwind", "_ITM", "__gmon"))


def source_of(symbols):
    """A stub in C."""
    lines = []
    for symbol in sorted(symbols):
        if symbol.endswith(("String", "ErrorName", "StringV2")):
            lines.append(
                f'const char *{symbol}(void) {{ return "a stub: there is no CUDA here"; }}'
            )
        else:
            answer = 0 if symbol.startswith("__cuda") or "GetLastError" in symbol else NO_DEVICE
            lines.append(f"long {symbol}(void) {{ return {answer}; }}")
    return "\n".join([*lines, ""])


def version_script(symbols):
    """For the linker: which symbols have which version."""
    by_version = defaultdict(list)
    for symbol, version in symbols.items():
        by_version[version].append(symbol)
    return "".join(
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(names))} }};\n"
        for version, names in by_version.items()
        if version
    )


def write_stubs(folder):
    """Put stubs for all that torch's libraries miss beside them; returns the names of the stubs."""
    cache = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    system = {line.split()[0] for line in cache.splitlines()[1:] if line.split()}
    # The extension modules beside the folder need nothing of CUDA that these do not.
    libraries = {path.name: read_library(path) for path in sorted(Path(folder).glob("*.so*"))}
    missing = missing_symbols(libraries, system.__contains__)
    for name, symbols in missing.items():
        _build_stub(Path(folder, name), symbols)
    return sorted(missing)


def _build_stub(path, symbols):
    source, script = path.with_name(f"{path.name}.c"), path.with_name(f"{path.name}.map")
    source.write_text(source_of(symbols))
    script.write_text(version_script(symbols))
    versions = [f"-Wl,--version-script={script}"] if script.stat().st_size else []
    try:
        subprocess.run(
            [
                "cc",
                "-shared",
                "-fPIC",
                "-w",
                f"-Wl,-soname,{path.name}",
                *versions,
                str(source),
                "-o",
                str(path),
            ],
            check=True,
        )
    finally:
        source.unlink()
        script.unlink()
