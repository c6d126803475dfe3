"""Recording: the torch bridge, windows, and trace data made of what these recorded."""
