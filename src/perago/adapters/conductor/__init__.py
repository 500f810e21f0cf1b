"""Conductor over the API classes of conductor-python."""
