"""Where something is, and how that reads."""

from opscope.columns.location import Location


def test_a_location_reads_as_file_and_line():
    assert str(Location("./train.py", 12, "main")) == "train.py:12"
    assert str(Location("train.py", function="main")) == "train.py"
    assert str(Location()) == ""


def test_of_what_a_module_does_itself_only_the_module_may_be_known():
    texts = {("train.py", 1): "import torch", ("train.py", 2): "go()"}
    assert Location("train.py", 1, "<module>").said(texts) == ""
    assert Location("train.py", 2, "<module>").said(texts) == "go()"
    assert Location("train.py", 1, "main").said(texts) == "import torch"
