"""The laws of objects."""

from examples.custom_adapter.test_directory_contract import lakefs_world as lakefs_world

from perago.testing.contract.objects import *  # noqa: F403 - every law of the port
