"""The laws of repositories."""

from examples.custom_adapter.test_directory_contract import lakefs_under_test as lakefs_under_test

from perago.testing.contract.repositories import *  # noqa: F403 - every law of the port
