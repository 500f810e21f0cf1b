"""Errors of Spark tasks carry their facts and say what to do."""

import pytest

from perago.domain.errors import (
    OpenStreamError,
    OutsidePrefixError,
    PeragoError,
    ReadOnlyWorkspaceError,
    SparkEnvironmentError,
    SparkPathError,
    SparkSessionError,
)


@pytest.mark.parametrize(
    ("error", "code", "parts"),
    [
        (
            SparkEnvironmentError(expected="Java 17", found="none", remedy="install one"),
            "PRG-K001",
            ("expected Java 17, found none", "install one"),
        ),
        (SparkSessionError("spark://a:1", "refused"), "PRG-K002", ("spark://a:1", "refused")),
        (OutsidePrefixError("lake", ["a", "b"]), "PRG-K003", ("prefix lake: a, b;",)),
        (OutsidePrefixError("lake", list("abcdef")), "PRG-K003", ("a, b, c, d, e, ...",)),
        (ReadOnlyWorkspaceError("daily"), "PRG-K004", ("read-only", "daily")),
        (OpenStreamError(["q1", "q2"]), "PRG-K005", ("q1, q2", "awaitTermination")),
        (SparkPathError("../x"), "PRG-K006", ("'../x'",)),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_error_says_what_was_found(
    error: PeragoError, code: str, parts: tuple[str, ...]
) -> None:
    assert error.code == code
    for part in parts:
        assert part in str(error)
