"""``opscope run``, from its options to its last output."""
