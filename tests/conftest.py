"""Fixtures of all suites; each suite has its own beside its tests."""

pytest_plugins = ["tests.servers_plugin", "tests.spark_plugin"]
