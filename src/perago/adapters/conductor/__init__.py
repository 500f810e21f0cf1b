"""Conductor over its REST API."""
