"""The matrix of torch and Python: its rows, its stand-ins for CUDA's libraries, what it says."""

import ctypes
import itertools
import json
import lzma
import shutil
import subprocess
import sys
import sysconfig
import urllib.error
from pathlib import Path

import pytest

from matrix import interpreters
from matrix.cuda_stubs import Library, missing_symbols, read_library, source_of, write_stubs
from matrix.results import read_outcomes, summary, with_mended, write_page
from matrix.rows import ROWS, Row, parse_row

needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") and shutil.which("readelf")), reason="needs a C compiler and readelf"
)


def test_rows_are_known_by_name():
    assert parse_row("torch-2.6") == Row("torch-2.6", "2.6.0", "3.11")
    assert parse_row("python-3.13t") == Row("python-3.13t", "", "3.13t")
    both = parse_row("torch-2.15-python-3.12")
    assert (both.torch, both.python) == ("2.15.0", "3.12")
    assert len({parse_row(name) for name in ROWS}) == len(ROWS)


@pytest.mark.parametrize("name", ["", "torch", "torch-1.0", "torch-2.6.0", "python", "numpy-2"])
def test_what_is_no_row_is_refused(name):
    with pytest.raises(ValueError, match="There is no row"):
        parse_row(name)


def test_interpreters_are_found_by_what_they_say(tmp_path):
    own = "%d.%d" % sys.version_info[:2]  # noqa: UP031 (as interpreters asks)
    own += "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    ours = tmp_path / own / "bin" / "python3"
    ours.parent.mkdir(parents=True)
    ours.symlink_to(sys.executable)
    assert interpreters.find_python(own, [str(tmp_path)]) is not None
    assert interpreters.find_python("2.99", [str(tmp_path)]) is None
    liar = tmp_path / "2.99" / "bin" / "python3"
    liar.parent.mkdir(parents=True)
    liar.write_text(f"#!{sys.executable}\n")
    liar.chmod(0o755)
    assert interpreters.find_python("2.99", [str(tmp_path)]) is None


def test_an_interpreter_that_is_there_is_not_made(tmp_path, monkeypatch):
    """Nor is one taken that was made where pyenv, wherever that is, has one."""
    monkeypatch.setattr(interpreters.shutil, "which", lambda name: None)
    monkeypatch.setattr(
        interpreters, "_version_of", lambda python: python.parts[-3][:4] if python.exists() else ""
    )
    made, pyenv = tmp_path / "made", tmp_path / "pyenv"
    monkeypatch.setenv("PYENV_ROOT", str(pyenv))
    monkeypatch.setattr(interpreters, "install_python", lambda version, folder: folder / "new")
    assert interpreters.find_or_install("2.99", made) == str(made / "2.99" / "new")
    for python in (made / "2.99" / "bin" / "python3", pyenv / "versions/2.99.1/bin/python"):
        python.parent.mkdir(parents=True)
        python.touch()
        assert interpreters.find_or_install("2.99", made) == str(python)


def test_what_is_missing_is_found_where_it_belongs():
    libraries = {
        "libours.so": Library(
            needs=["libcudart.so.12", "libc.so.6"],
            defines={"ours"},
            lacks=[("cudaMalloc", "libcudart.so.12"), ("ours", ""), ("plain", ""), ("_Zfoo", "")],
            version_of={"libcudart.so.12": "libcudart.so.12", "GLIBC_2.2.5": "libc.so.6"},
        )
    }
    found = missing_symbols(libraries, {"libc.so.6"}.__contains__)
    assert found == {"libcudart.so.12": {"cudaMalloc": "libcudart.so.12", "plain": ""}}
    assert missing_symbols(libraries, lambda name: True) == {}


def test_stubs_answer_that_there_is_no_device():
    source = source_of({"cudaMalloc": "", "cudaGetErrorString": "", "cudaGetLastError": ""})
    assert "cudaMalloc(void) { return 100; }" in source
    assert "cudaGetLastError(void) { return 0; }" in source
    assert 'cudaGetErrorString(void) { return "' in source


@needs_compiler
def test_a_library_can_be_loaded_with_stubs(tmp_path):
    def compile(name, text, *options):
        (tmp_path / "x.c").write_text(text)
        command = ["cc", "-shared", "-fPIC", str(tmp_path / "x.c"), "-o", str(tmp_path / name)]
        subprocess.run([*command, *options], check=True)
        (tmp_path / "x.c").unlink()

    compile("libgone.so.3", "int gone(void) { return 7; }", "-Wl,-soname,libgone.so.3")
    compile(
        "libneeds.so",
        "int gone(void); int asked(void) { return gone(); }",
        *(f"-L{tmp_path}", "-l:libgone.so.3", "-Wl,-rpath,$ORIGIN"),
    )
    (tmp_path / "libgone.so.3").unlink()
    with pytest.raises(OSError, match="libgone"):
        ctypes.CDLL(str(tmp_path / "libneeds.so"))
    assert read_library(tmp_path / "libneeds.so").needs[0] == "libgone.so.3"

    assert write_stubs(tmp_path) == ["libgone.so.3"]
    assert ctypes.CDLL(str(tmp_path / "libneeds.so")).asked() == 100
    assert {path.name for path in tmp_path.iterdir()} == {"libneeds.so", "libgone.so.3"}


def outcome(test, how, reason=""):
    return json.dumps({"test": test, "outcome": how, "reason": reason}) + "\n"


def test_outcomes_of_processes_are_put_together(tmp_path):
    skipped = outcome("a.py", "skipped", "no torch")
    failed = outcome("b.py::x", "failed", "E one\nmore") + outcome("b.py::x", "passed")
    (tmp_path / "1.jsonl").write_text(skipped + failed)
    (tmp_path / "2.jsonl").write_text(skipped + outcome("c.py::y", "passed"))
    found = summary(read_outcomes(tmp_path))
    assert found == {
        "passed": 1, "skipped": {"no torch": 1}, "failed": {"b.py::x": "E one"}, "alone": {},
    }  # fmt: skip
    assert summary({}) == {"passed": 0, "skipped": {}, "failed": {}, "alone": {}}


@pytest.mark.parametrize("order", list(itertools.permutations(("1", "2", "3"))))
def test_what_failed_beside_others_and_passed_alone_has_passed_and_is_named(tmp_path, order):
    outcomes = [[("a", "failed", "E slow")], [("a", "passed", "")], [("b", "failed", "E two")]]
    for name, of_process in zip(order, outcomes, strict=True):
        lines = [{"test": t, "outcome": o, "reason": r} for t, o, r in of_process]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    found = summary(read_outcomes(tmp_path))
    assert found["passed"] == 1
    assert found["alone"] == {"a": "E slow"} and found["failed"] == {"b": "E two"}


def test_what_passes_when_the_failed_are_run_again_has_been_mended():
    failed = {"a": "E one", "b": "E two", "c": "E three", "d": "E four"}
    kept = {"row": "torch-2.6", "passed": 7, "skipped": {}, "failed": failed, "mended": {"z": "E"}}
    again = {
        "a": {"outcome": "passed"},
        "b": {"outcome": "failed"},
        "c": {"outcome": "skipped"},
    }  # "d" did not run
    found = with_mended(kept, again)
    assert found["passed"] == 8
    assert found["failed"] == {"b": "E two", "c": "E three", "d": "E four"}
    assert found["mended"] == {"z": "E", "a": "E one"}
    assert kept["failed"] == failed


def test_the_page_says_what_each_row_gave(tmp_path):
    full = {
        "passed": 3,
        "skipped": {"no | here": 2},
        "failed": {"a.py::x": "at 0x12ab in /tmp/y/z"},
        "alone": {"a.py::y": "late"},
        "mended": {"a.py::z": "wrong"},
    }
    for name, result in {
        "torch-2.6": {"torch": "2.6.0", "python": "3.11.7", "closest": True, **full},
        "python-3.14": {"unavailable": "There is no Python 3.14 here."},
        "python-3.12": {"torch": "", "python": "3.12.1", "passed": 1, "skipped": {}, "failed": {}},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"row": name, **result}))
    write_page(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text()
    assert "| `torch-2.6`, only what is closest to torch | 3 | 2 | 1 |" in page
    assert "| `python-3.14` | not run: There is no Python 3.14 here. | | |" in page
    assert "| 2 | no \\| here |" in page and "| `a.py::x` | at 0x… in …/z |" in page
    assert "| failed beside other tests, passed alone | with |" in page
    assert "| `a.py::y` | late |" in page
    assert "| failed in the whole row, passed once mended | with |" in page
    assert "Everything ran and passed." in page.partition("No torch, Python 3.12.1")[2]


class FakeMirror:
    """Debian's, as far as making an interpreter asks: an index, and what it names."""

    def __init__(self, monkeypatch, files):
        self.asked, self.files = [], files
        monkeypatch.setattr(interpreters, "_download", self.download)
        monkeypatch.setattr(interpreters.shutil, "which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setattr(interpreters, "MACHINE", "x86_64")

    def download(self, path, sha256=None):
        self.asked.append(path)
        return self.files[path]


def index_of(*packages):
    text = "".join(
        f"Package: {name}\nVersion: 1\nDepends: {needs}\nFilename: pool/{name}.deb\nSHA256: 0\n\n"
        for name, needs in packages
    )
    return lzma.compress(text.encode())


def test_an_interpreter_is_made_of_what_it_needs_to_run(tmp_path, monkeypatch):
    packages = {
        "python3.14-venv": "python3.14 (= 1), python3-pip-whl (>= 2)",
        "libpython3.14-dev": "libpython3.14 (= 1), libexpat1-dev, zlib1g-dev",
        "python3.14": "libc6 (>= 2.38), media-types | mime-support, tzdata",
        "libpython3.14": "zlib1g:any (>= 1)",
        "python3-pip-whl": "ca-certificates",
        "libc6": "libgcc-s1",
        "zlib1g": "",
        "media-types": "",
        "libexpat1-dev": "",
        "libelse": "",
    }
    mirror = FakeMirror(
        monkeypatch,
        {
            "dists/sid/main/binary-amd64/Packages.xz": index_of(*packages.items()),
            **{f"pool/{name}.deb": name.encode() for name in packages},
        },
    )
    monkeypatch.setattr(interpreters, "_run", lambda *command, **_: None)
    monkeypatch.setattr(interpreters, "_settle", lambda version, folder: None)
    made = interpreters.install_python("3.14", tmp_path / "made")
    assert made == tmp_path / "made" / "bin" / "python3"
    needed = (
        *("libc6", "libgcc-s1", "libpython3.14", "libpython3.14-dev", "python3-pip-whl"),
        *("python3.14", "python3.14-venv", "zlib1g"),
    )
    assert set(mirror.asked[1:]) == {f"pool/{name}.deb" for name in needed} - {
        "pool/libgcc-s1.deb"  # the index has none
    }


def test_an_interpreter_that_debian_does_not_have_leaves_nothing(tmp_path, monkeypatch):
    FakeMirror(monkeypatch, {"dists/sid/main/binary-amd64/Packages.xz": index_of(("libc6", ""))})
    with pytest.raises(interpreters.NoInterpreter, match="Debian has none"):
        interpreters.install_python("3.99", tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_the_newest_source_that_is_there_is_built(tmp_path, monkeypatch):
    sources = "".join(
        f"Package: python3.13\nVersion: 3.13.{release}-1\n"
        f"Checksums-Sha256:\n {'0' * 64} 5 python3.13_3.13.{release}.orig.tar.xz\n\n"
        for release in (9, 18, 15)
    )
    mirror = FakeMirror(
        monkeypatch, {"dists/sid/main/source/Sources.xz": lzma.compress(sources.encode())}
    )

    gone = ["3.13.18", "3.14.7"]

    def download(path, sha256=None):
        if any(release in path for release in gone):
            raise urllib.error.HTTPError(path, 404, "gone", {}, None)
        return mirror.files.get(path, path.encode())

    monkeypatch.setattr(interpreters, "_download", download)
    monkeypatch.setattr(interpreters, "_compile", lambda archive, name, folder: archive.decode())
    pool = "pool/main/p/python3."
    made = interpreters.install_python("3.13t", tmp_path / "made")
    assert made == f"{pool}13/python3.13_3.13.15.orig.tar.xz"
    with pytest.raises(interpreters.NoInterpreter, match="no source"):
        interpreters.install_python("3.14t", tmp_path / "made")
    gone.remove("3.14.7")  # which no index names
    made = interpreters.install_python("3.14t", tmp_path / "made")
    assert made == f"{pool}14/python3.14_3.14.7.orig.tar.xz"


def test_what_is_not_as_the_index_says_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(interpreters, "MIRROR", tmp_path.as_uri())
    tmp_path.joinpath("package.deb").write_bytes(b"something else")
    with pytest.raises(interpreters.NoInterpreter, match="not what its index says"):
        interpreters._download("package.deb", "0" * 64)


def test_what_rows_run_is_there():
    from matrix.__main__ import CALLS, CLOSEST, WITH_TORCH, WITHOUT_TORCH

    named = {*CALLS, *CLOSEST, *WITH_TORCH, *WITHOUT_TORCH}
    root = Path(__file__).parents[3]
    assert sorted(one for one in named if not (root / one).exists()) == []
