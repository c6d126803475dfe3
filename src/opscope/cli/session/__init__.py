"""The recording of ``opscope run``, from its options to its end."""
