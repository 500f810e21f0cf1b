"""The laws of tags."""

from examples.custom_adapter.test_directory_contract import lakefs_world as lakefs_world

from perago.testing.contract.tags import *  # noqa: F403 - every law of the port
