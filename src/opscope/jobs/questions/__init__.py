"""Questions about all processes of a job, written once and answered by any of several engines."""
