"""``EventList``: the list of events that torch.profiler returns, its table and its nesting."""
