"""Real libraries, plain and recorded: their tests and programs must not be able to tell."""
