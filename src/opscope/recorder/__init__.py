"""Control of the native recorder: the torch bridge, windows, assembling traces."""
