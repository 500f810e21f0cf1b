"""The laws of commits."""

from examples.custom_adapter.test_directory_contract import lakefs_under_test as lakefs_under_test

from perago.testing.contract.commits import *  # noqa: F403 - every law of the port
