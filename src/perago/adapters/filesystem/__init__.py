"""Attempt directories and directory scans on a local disk."""
