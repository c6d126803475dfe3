"""What torch.profiler's Python calls into C++ for, on opscope's recorder."""
