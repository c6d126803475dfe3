"""What all need of a recording: how events nest, steps, phases, modules, periods, doubts."""
