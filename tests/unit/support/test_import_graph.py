"""The graph of imports that the test of the layers looks at."""

from __future__ import annotations

from textwrap import dedent

import pytest

from support.import_graph import Import, circles, imports_in, modules_in


@pytest.fixture
def package(tmp_path):
    def write(**files):
        folder = tmp_path / "pack"
        for name, text in files.items():
            file = folder / f"{name.replace('__in__', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(text))
        return folder

    return write


def test_modules_by_name(package):
    folder = package(__init__="", a="", b__in____init__="", b__in__c="")
    assert set(modules_in(folder)) == {"__init__", "a", "b", "b.c"}


@pytest.mark.parametrize(
    ("statement", "target"),
    [
        ("import pack.b.c", "b.c"),
        ("from pack.b import c", "b.c"),
        ("from pack.b.c import value", "b.c"),
        ("from pack.b import value", "b"),
        ("from pack import value", "__init__"),
        ("import pack", "__init__"),
        ("from pack import _core", "_core"),
    ],
)
def test_ways_to_import(package, statement, target):
    folder = package(__init__="", a=statement, b__in____init__="", b__in__c="")
    assert imports_in(folder, compiled=["_core"]) == {Import("a", target, True)}


@pytest.mark.parametrize("statement", ["import os", "from packer import b", "from os import pack"])
def test_other_packages_do_not_count(package, statement):
    assert imports_in(package(__init__="", a=statement)) == set()


def test_imports_that_come_later(package):
    later = """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            import pack.b
        def function():
            if True:
                import pack.c
        class Kind:
            import pack.d
        try:
            import pack.e
        except ImportError:
            pass
    """
    found = imports_in(package(__init__="", a=later, b="", c="", d="", e=""))
    assert {i.target: i.at_once for i in found} == {"b": False, "c": False, "d": True, "e": True}


def test_a_relative_import_is_refused(package):
    with pytest.raises(AssertionError, match="relative import in line 2"):
        imports_in(package(__init__="", a="\nfrom . import b", b=""))


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        ("ab bc ac", []),
        ("ab ba", ["ab"]),
        ("ab bc ca cd", ["abc"]),
        ("ab bc cb da ad", ["ad", "bc"]),
        ("ab bc ca cd de ef fd", ["abc", "def"]),
        ("", []),
    ],
)
def test_circles(edges, found):
    assert sorted(map("".join, circles(edge for edge in edges.split()))) == found
