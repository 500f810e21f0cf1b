"""Object paths and local paths, and the names that cannot be both.

Which objects belong to lakeFS and Perago, and which of them a body must not have written.

What an object's checksum says of its bytes.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perago.domain.paths import (
    ACTIONS_PREFIX,
    ATTEMPT_MARKER,
    FENCE_PATH,
    NameRules,
    are_plain,
    collision,
    is_directory_marker,
    is_refused_object,
    is_reserved_object,
    listing_prefix,
    md5_of_checksum,
    name_problem,
    object_path,
    relative_path,
)

SAFE = st.lists(st.sampled_from(["a", "b c", "ü", ".hidden", "x.tar.gz"]), min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("prefix", "path", "relative"),
    [
        ("/", "a/b", "a/b"),
        ("data", "data/a/b", "a/b"),
        ("data", "data/", ""),
        ("data", "data", None),
        ("data", "data2/a", None),
        ("data", "other/data/a", None),
        ("data/deep", "data/deep/a", "a"),
    ],
)
def test_the_relative_path_of_an_object(prefix: str, path: str, relative: str | None) -> None:
    assert relative_path(prefix, path) == relative


@given(st.sampled_from(["/", "data", "data/deep"]), SAFE)
def test_a_path_comes_back_as_it_went(prefix: str, segments: list[str]) -> None:
    relative = "/".join(segments)
    assert relative_path(prefix, object_path(prefix, relative)) == relative
    assert object_path(prefix, relative).startswith(listing_prefix(prefix))
    assert name_problem(relative) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("a\\b", "contains a backslash"),
        ("a\x00b", "contains a NUL character"),
        ("c:x", "starts with a drive letter"),
        ("C:", "starts with a drive letter"),
        ("\udcff", "is not valid Unicode"),
        ("", "has an empty path segment"),
        ("a//b", "has an empty path segment"),
        ("/a", "has an empty path segment"),
        ("a/", "has an empty path segment"),
        (".", "has a '.' path segment"),
        ("a/../b", "has a '..' path segment"),
        ("x" * 256, "has a path segment longer than 255 bytes"),
        ("a/" + "ü" * 128, "has a path segment longer than 255 bytes"),
        ("x" * 255, None),
        ("a/" * 1900 + "a", "is longer than 3800 bytes"),
        ("a/" * 500 + "a", "has more than 500 path segments"),
        ("a/" * 499 + "a", None),
        ("1:x", None),
        ("ab:c", None),
        ("...", None),
        ("a b+c%?#&", None),
    ],
    ids=lambda value: str(value)[:12].encode("unicode_escape").decode(),
)
def test_names_that_cannot_be_both(name: str, problem: str | None) -> None:
    assert name_problem(name) == problem


PLAIN = ["a", "a b/c+d%?#&.x", "part-1/...", "x" * 255]


def test_plain_names_need_no_second_look() -> None:
    assert are_plain(PLAIN)


@pytest.mark.parametrize(
    "odd",
    [
        *["", "/a", "a/", "a//b", ".", "..", "./a", "../a", "a/.", "a/..", "a/./b", "a/../b"],
        *["a\n//b", "\n/./\n", "a\\b", "a\x00b", "c:/x", "\ud800", "x" * 256],
    ],
    ids=ascii,
)
@pytest.mark.parametrize("where", [0, 2, len(PLAIN)])
def test_a_name_that_is_refused_is_not_plain(odd: str, where: int) -> None:
    assert name_problem(odd) is not None
    assert not are_plain([*PLAIN[:where], odd, *PLAIN[where:]])


def test_names_are_not_plain_beyond_what_a_path_may_have() -> None:
    assert not are_plain(["a" * 99], NameRules(path_bytes_max=98))


FOLDS_CASE = NameRules(folds_case=True)
FOLDS_UNICODE = NameRules(folds_unicode=True)


@pytest.mark.parametrize(
    ("names", "rules", "clash"),
    [
        (["a", "b", "a.b"], NameRules(), None),
        (["a", "a/b"], NameRules(), ("a", "a/b")),
        (["x/y/z", "x/y"], NameRules(), ("x/y", "x/y/z")),
        (["a", "A"], NameRules(), None),
        (["a", "A"], FOLDS_CASE, ("a", "A")),
        (["d/a", "D/b"], FOLDS_CASE, ("d/", "D/b")),
        (["a", "A/b"], FOLDS_CASE, ("a", "A/b")),
        (["d/a", "d/b"], FOLDS_CASE, None),
        (["\u00e9", "e\u0301"], NameRules(), None),
        (["\u00e9", "e\u0301"], FOLDS_UNICODE, ("\u00e9", "e\u0301")),
    ],
)
def test_names_that_cannot_stand_together(
    names: list[str], rules: NameRules, clash: tuple[str, str] | None
) -> None:
    assert collision(names, rules) == clash


@pytest.mark.parametrize(
    ("path", "size", "expected"),
    [("x/", 0, True), ("", 0, True), ("x/", 1, False), ("x", 0, False)],
)
def test_directory_markers(path: str, size: int, expected: bool) -> None:  # noqa: FBT001
    assert is_directory_marker(path, size) is expected


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


MD5 = "d41d8cd98f00b204e9800998ecf8427e"


@pytest.mark.parametrize(
    ("checksum", "md5"),
    [
        (MD5, MD5),
        (f'"{MD5}"', MD5),
        (MD5.upper(), MD5),
        (f"{MD5}-3", None),
        (MD5[:-1], None),
        (MD5[:-1] + "g", None),
        ("", None),
    ],
)
def test_the_md5_of_a_checksum(checksum: str, md5: str | None) -> None:
    assert md5_of_checksum(checksum) == md5
