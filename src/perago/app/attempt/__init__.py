"""One attempt of one task, from its input to its accepted completion."""
