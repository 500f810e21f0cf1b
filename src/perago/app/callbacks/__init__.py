"""The synchronous callback API of 0.6.1: one attempt whose transfers are the caller's own."""
