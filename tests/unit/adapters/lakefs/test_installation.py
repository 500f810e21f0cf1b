"""Patterns of branch protection, read as the server reads them."""

import pytest

from perago.adapters.lakefs.installation import covers


@pytest.mark.parametrize(
    ("pattern", "branch", "covered"),
    [
        ("main", "main", True),
        ("main", "main2", False),
        ("main", "a-main", False),
        ("*", "anything", True),
        ("stable_*", "stable_1-2", True),
        ("stable_*", "stable", False),
        ("v?", "v1", True),
        ("v?", "v12", False),
        ("v[0-9]", "v7", True),
        ("v[!0-9]", "v7", False),
        ("{main,prod}", "prod", True),
        ("{main,prod}", "main,prod", False),
        ("{main,v*}-x", "v1-x", True),
        ("a.c", "abc", False),
        ("a(b", "a(b", True),
        ("a,b", "a,b", True),
        (r"\*", "x", False),
        ("v[9-0]", "v1", False),
        ("{main", "main", False),
    ],
)
def test_every_pattern(pattern: str, branch: str, covered: bool) -> None:  # noqa: FBT001 - a column
    assert covers(pattern, branch) is covered
