"""The publication fence of a repository: installing it, proving it, trusting it."""
