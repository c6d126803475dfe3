"""torch.profiler's C++ functions, on opscope's recorder."""
