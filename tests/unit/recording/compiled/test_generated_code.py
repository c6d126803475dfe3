"""Reading what inductor generates: which lines call something, and what the comments say."""

from opscope.recording.compiled.generated_code import graph_name, operators_in_name, sites_in

SOURCE = """# AOT ID: ['3_forward']
cpp_fused_add_0 = async_compile.cpp_pybinding([], '')
async_compile.wait(globals())

class Runner:
    def call(self, args):
        x, = args
        args.clear()
        assert_size_stride(x, (4, 4), (4, 1), 'input')
        buf0 = empty_strided_cpu((4, 4), (4, 1), torch.float32)
        # Topologically Sorted Source Nodes: [y, z], Original ATen: [aten.t, aten.mm]
        extern_kernels.mm(x, reinterpret_tensor(x, (4, 4), (1, 4), 0), out=buf0)
        cpp_fused_add_0(buf0, x)
        # Topologically Sorted Source Nodes: [w], Original ATen: [aten.relu]
        # [Provenance debug handles] triton_poi_fused_relu_1:7
        stream0 = get_raw_stream(0)
        triton_poi_fused_relu_1.run(buf0, 16, stream=stream0)
        return (buf0, )

def get_args():
    return [rand_strided((4, 4), (4, 1))]
"""


def test_calls_of_kernels_and_operators_are_found_in_their_order():
    assert [(site.callee, site.is_cpp) for site in sites_in(SOURCE)] == [
        ("extern_kernels.mm", False),
        ("cpp_fused_add_0", True),
        ("triton_poi_fused_relu_1", False),
    ]


def test_a_call_has_the_line_that_it_stands_in():
    lines = SOURCE.splitlines()
    for site in sites_in(SOURCE):
        assert site.callee in lines[site.line - 1]


def test_a_call_has_what_the_comment_above_it_says():
    product, kernel, _ = sites_in(SOURCE)
    assert (product.nodes, product.operators) == (("y", "z"), ("aten.t", "aten.mm"))
    assert (product.comment, kernel.comment) == (0, -1)
    assert (kernel.nodes, kernel.operators) == ((), ())


def test_a_graph_in_cpp_is_one_call():
    source = """
def _wrap_func(f):
    def g(args):
        handles = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors(args)
        results = f(handles)
        return torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs(results)
    return g
"""
    (site,) = sites_in(source)
    assert (site.line, site.is_graph, site.is_cpp) == (5, True, True)


def test_a_file_that_is_no_python_has_no_calls():
    assert sites_in("#include <x>\nint main() {") == []


def test_the_graph_has_the_name_that_inductor_gave_it():
    assert graph_name(SOURCE) == "3_forward"
    assert graph_name("import torch") == ""


def test_names_of_kernels_say_operators():
    assert operators_in_name("cpp_fused_add_relu_3") == ("add_relu",)
    assert operators_in_name("triton_poi_fused_mul_0") == ("mul",)
    assert operators_in_name("cpp_fused_1") == ()
