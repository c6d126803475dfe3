"""opscope in the place of torch.profiler; see ``opscope.drop_in``."""
