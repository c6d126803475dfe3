"""What the ledger calls the times of the thread that opened a recording; source ``processor``."""

SOURCE = "processor"
COMPUTED = "computed, of the thread that opened it; ns"
WAITED = "waited for a processor; ns"
