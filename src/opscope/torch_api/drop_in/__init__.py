"""Replaces torch.profiler by opscope; see ``opscope.drop_in``."""
