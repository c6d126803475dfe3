"""Chrome JSON with the fields of torch.profiler's files, written by native code."""
