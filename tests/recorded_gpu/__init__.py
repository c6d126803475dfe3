"""Jobs that others recorded on devices, played to the collector and compared with their files."""
