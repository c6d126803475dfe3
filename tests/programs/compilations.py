"""Functions that torch.compile compiles in parts or again, and what opscope says of that.

Prints as JSON: by function the reasons and lines of its graph breaks, the reasons of its
recompilations, and what was compiled while a recording was under way.
"""

import json
import re
import time

import torch

import opscope


def printing(x):
    x = x + 1
    print("", end="")  # breaks: print
    return x * 2


def branching(x):
    x = x + 1
    if x.sum() > 0:  # breaks: generic_jump
        return x * 2
    return x * 3


def reading_a_value(x):
    y = x.sum().item()  # breaks: item
    return x * y


@torch.compiler.disable
def left_out(x):
    return x + 3


def calling_what_is_left_out(x):
    x = x + 1
    x = left_out(x)  # breaks: disable
    return x * 2


def asking_to_break(x):
    x = x + 1
    torch._dynamo.graph_break()  # breaks: graph_break
    return x * 2


def asking_the_time(x):
    x = x + 1
    time.time()  # breaks: time
    return x * 2


def counting_values(x):
    return x.nonzero() * 2  # breaks: nonzero


BREAKING = (
    printing,
    branching,
    reading_a_value,
    calling_what_is_left_out,
    asking_to_break,
    asking_the_time,
    counting_values,
)


class Settings:
    pass


settings = Settings()
settings.factor = 2
SHIFT = 3


def compiled_anew():
    """A function that torch has not compiled before: reasons are those of the version before."""

    def depends(x, times=1):
        return x * settings.factor * times + SHIFT

    compiled = torch.compile(depends, backend="eager", dynamic=False)
    compiled(torch.ones(4))
    return compiled


def recompiled():
    """Everything that a function is compiled again for."""
    global SHIFT
    x = torch.ones(4)
    torch._dynamo.reset()
    compiled_anew()(torch.ones(5))
    torch._dynamo.reset()
    compiled_anew()(torch.ones(4, dtype=torch.float64))
    torch._dynamo.reset()
    compiled_anew()(x, times=2)
    torch._dynamo.reset()
    compiled_anew()(torch.ones(2, 2))
    torch._dynamo.reset()
    compiled = compiled_anew()
    settings.factor = 5
    compiled(x)
    torch._dynamo.reset()
    compiled = compiled_anew()
    SHIFT = 4
    compiled(x)
    torch._dynamo.reset()
    compiled = compiled_anew()
    with torch.no_grad():
        compiled(x)


def lines_that_break():
    with open(__file__, encoding="utf-8") as file:
        marks = [(re.search(r"# breaks: (\w+)$", text), n) for n, text in enumerate(file, 1)]
    return {n: mark.group(1) for mark, n in marks if mark}


def main():
    compiled_before = torch.compile(printing, backend="eager")
    compiled_before(torch.ones(4))
    with opscope.profile() as prof:
        for function in BREAKING[1:]:
            torch.compile(function, backend="eager")(torch.ones(4))
        recompiled()
    found = prof.trace.compiled("all")
    marked = lines_that_break()
    print(
        json.dumps(
            {
                "breaks": [
                    [marked.get(one.line, ""), one.reason, one.while_recording]
                    for one in found.graph_breaks
                ],
                "expected": list(marked.values()),
                "recompilations": [
                    [one.function, one.reason, one.duration_ns > 0] for one in found.recompilations
                ],
                "first": [one.function for one in found.compilations if not one.while_recording],
            }
        )
    )


if __name__ == "__main__":
    main()
