"""Measurements: each writes its figures to `results/` and compares within one run."""
