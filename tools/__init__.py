"""Programs of the repository: not part of the distribution, never imported by `perago`."""
