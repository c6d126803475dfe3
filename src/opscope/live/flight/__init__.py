"""The flight recorder: records into a ring all the time, and writes dumps of it."""
