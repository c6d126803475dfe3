"""The tree of ``_ProfilerEvent`` that torch's experimental profiler interface returns."""
