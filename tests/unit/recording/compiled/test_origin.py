"""What a node of the compiled graph says of where it came from."""

import sys
from types import SimpleNamespace

from opscope.recording.compiled.origin import (
    module_path,
    origin_of_node,
    place_in_stack,
    present_place,
)


def frame(file, line, function):
    return f'  File "{file}", line {line}, in {function}\n    text\n'


def test_the_place_is_the_innermost_of_the_program():
    outer, inner = frame("train.py", 3, "main"), frame("model.py", 7, "forward")
    library = frame("/x/site-packages/torch/nn/functional.py", 99, "relu")
    assert place_in_stack(outer + inner + library) == ("model.py", 7, "forward")
    assert place_in_stack(library)[1] == 99
    assert place_in_stack("") == ("", -1, "")


def test_a_line_that_has_moved_since_is_where_it_is_now(tmp_path, monkeypatch):
    file = tmp_path / "model.py"
    monkeypatch.setitem(sys.modules, "model", SimpleNamespace(__file__=str(file)))
    file.write_text("import torch\n\n# moved down\ny = f(x)\n")
    stack = f'  File "{file}", line 2, in forward\n    y = f(x)\n      ^^^^\n'
    place = place_in_stack(stack)
    assert place[1] == 2
    assert present_place(place, stack) == (str(file), 4, "forward")
    gone = stack.replace("y = f(x)", "y = g(x)")
    assert present_place(place, gone) == ("", -1, "")
    assert present_place((str(file), 3, "f"), "") == (str(file), 3, "f")


def test_a_program_that_was_copied_has_its_lines_where_it_is_now(tmp_path, monkeypatch):
    for folder, text in (("near/train", "y = x.sin()"), ("far", "y = x.sin()"), ("other", "z = 1")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "model.py").write_text(f"import torch\n{text}\n")
        module = SimpleNamespace(__file__=str(tmp_path / folder / "model.py"))
        monkeypatch.setitem(sys.modules, f"copied_{folder}", module)
    place = ("/gone/train/model.py", 9, "forward")
    stack = 'File "/gone/train/model.py", line 9, in forward\n    y = x.sin()'
    assert present_place(place, stack) == (str(tmp_path / "near/train/model.py"), 2, "forward")
    assert present_place(place, stack.replace("sin", "cos")) == ("", -1, "")
    assert present_place(place, "") == ("", -1, ""), "nothing says that it is the same"


def test_a_line_of_another_program_is_not_that_of_this_one():
    assert present_place(("elsewhere.py", 3, "f"), "") == ("", -1, "")


def test_modules_have_the_path_that_the_program_gives_them():
    inner = {"1": ("L['self'].blocks.3", object), "2": ("L['self'].blocks.3.mlp", object)}
    assert module_path(inner) == "blocks.3.mlp"
    indexed = {"1": ("L['self']._modules['blocks']._modules['0']", object)}
    assert module_path(indexed) == "blocks.0"
    assert module_path({"1": ("G['model'].norm", object)}) == "norm"
    assert module_path({"1": ("L['self']", object)}) == ""
    assert module_path({}) == ""


def test_a_node_that_inductor_added_has_the_place_of_what_needs_it():
    user = SimpleNamespace(name="use", meta={}, stack_trace=frame("model.py", 7, "forward"))
    hashable = type("Node", (), {"name": "seeds", "meta": {}, "stack_trace": None, "users": ()})
    node = hashable()
    needs = type("Node", (), {**vars(user)})()
    node.users = (needs,)
    assert origin_of_node(node).line == 7


def test_a_node_of_a_module_that_stacks_leave_out_has_the_place_of_its_class():
    class Module:
        def forward(self):
            pass

    meta = {"nn_module_stack": {"1": ("L['self']._modules['0']", Module)}}
    node = type("Node", (), {"name": "mm", "meta": meta, "stack_trace": None})()
    origin = origin_of_node(node)
    assert (origin.module, origin.file) == ("0", __file__)
    assert origin.line == Module.forward.__code__.co_firstlineno


def test_a_backward_node_has_the_module_of_its_forward():
    meta = {"fwd_nn_module_stack": {"1": ("L['self'].norm", object)}, "original_aten": "aten.mm"}
    stack = frame("model.py", 7, "forward")
    node = type("Node", (), {"name": "mm_1", "meta": meta, "stack_trace": stack})()
    origin = origin_of_node(node)
    assert (origin.module, origin.operator, origin.line) == ("norm", "aten.mm", 7)
