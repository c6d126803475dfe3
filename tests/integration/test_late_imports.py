"""What a recording imports it imports first: a fork meanwhile would leave a child without it."""

from support.recorded import run_python


def test_nothing_is_imported_between_the_first_start_and_the_last_look():
    output = run_python(
        """
import sys, tempfile, torch, opscope
everything = dict(record_shapes=True, profile_memory=True, with_stack=True, with_modules=True)
prof = opscope.profile(**everything)
prof.start()
before = set(sys.modules)
torch.nn.Linear(2, 2)(torch.ones(2, 2)).sum().backward()
prof.stop()
len(prof.trace.events)
prof.key_averages().table()
prof.export_chrome_trace(tempfile.mkdtemp() + "/t.json")
print(sorted(set(sys.modules) - before))
"""
    )
    assert output.strip() == "[]"
