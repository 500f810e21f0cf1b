"""Mutation testing of the domain: its tests must notice every small wrong change."""
