"""The laws of repositories."""

from examples.custom_adapter.test_directory_contract import lakefs_world as lakefs_world

from perago.testing.contract.repositories import *  # noqa: F403 - every law of the port
