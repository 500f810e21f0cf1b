"""The short form of `make bench-start`: a command answers before its reader wonders."""

from benchmarks.start_up import above_target, ours, ratios


def test_version_and_help_start_within_the_target() -> None:
    found = ratios(ours(), rounds=5)
    assert not above_target(found), found
