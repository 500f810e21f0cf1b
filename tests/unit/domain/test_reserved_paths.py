"""Which objects belong to lakeFS and Perago, and which of them a body must not have written."""

import pytest

from perago.domain.paths import (
    ACTIONS_PREFIX,
    ATTEMPT_MARKER,
    FENCE_PATH,
    is_refused_object,
    is_reserved_object,
)

OURS, MARKER, BUSINESS = (True, True), (True, False), (False, False)


@pytest.mark.parametrize(
    ("path", "reserved_and_refused"),
    [
        ("_lakefs_actions/perago_publication_fence.yaml", OURS),
        ("_lakefs_actions/theirs.yaml", OURS),
        ("_lakefs_actions/deep/er.yaml", OURS),
        ("_lakefs_actions/", OURS),
        (".perago-attempt.json", MARKER),
        ("audio/.perago-attempt.json", MARKER),
        ("audio/deep/er/.perago-attempt.json", MARKER),
        ("_lakefs_actions/.perago-attempt.json", OURS),
        ("_lakefs_actions", BUSINESS),
        ("_lakefs_actions.txt", BUSINESS),
        ("audio/_lakefs_actions/x.yaml", BUSINESS),
        ("_LAKEFS_ACTIONS/x.yaml", BUSINESS),
        (".perago-attempt.json.bak", BUSINESS),
        ("my.perago-attempt.json", BUSINESS),
        (".perago-attempt.json/x", BUSINESS),
        ("audio/song.wav", BUSINESS),
        ("", BUSINESS),
    ],
)
def test_the_table(path: str, reserved_and_refused: tuple[bool, bool]) -> None:
    assert (is_reserved_object(path), is_refused_object(path)) == reserved_and_refused


def test_the_fence_is_reserved() -> None:
    assert is_reserved_object(FENCE_PATH)
    assert f"{ACTIONS_PREFIX}perago_publication_fence.yaml" == FENCE_PATH
    assert is_reserved_object(ATTEMPT_MARKER)
