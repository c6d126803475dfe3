"""Recording: the torch bridge, windows, and the trace data made from them."""
