"""torch.profiler's rules: listed events, nesting and averages."""
