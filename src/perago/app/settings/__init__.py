"""Configuration: what can be set, where each value came from, and what a worker is called."""
