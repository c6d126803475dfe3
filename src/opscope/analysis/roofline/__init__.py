"""How near operators come to what this machine can do, in computing and in moving memory."""
