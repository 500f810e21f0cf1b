"""The laws of tags."""

from examples.custom_adapter.test_directory_contract import lakefs_under_test as lakefs_under_test

from perago.testing.contract.tags import *  # noqa: F403 - every law of the port
