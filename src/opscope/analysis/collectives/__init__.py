"""What went on between processes: collective calls, and the transfers that they began."""
