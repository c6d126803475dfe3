"""Structure of a recording: nesting, steps, phases, modules, periods, doubts."""
