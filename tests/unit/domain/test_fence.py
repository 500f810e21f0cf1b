"""The fence we ship: its file, and its very Lua text run by Lua 5.2 as lakeFS runs it."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import pytest
import yaml
from lupa import lua52

from perago.domain.fence import (
    FENCE_FILE,
    FENCE_SCRIPT,
    HEAD_MOVED_TEXT,
    SHIPPED_FENCE_FILES,
    FenceState,
    recognise_fence,
)


def run_fence(metadata: Mapping[str, str], parents: Sequence[str]) -> str | None:
    """Run the hook on one commit as lakeFS presents it; the text of its refusal, or None."""
    lua = lua52.LuaRuntime(unpack_returned_tuples=True)
    commit = lua.table_from(
        {"metadata": lua.table_from(metadata), "parents": lua.table_from(parents)}
    )
    lua.globals()["action"] = lua.table_from({"commit": commit})
    try:
        lua.execute(FENCE_SCRIPT)
    except lua52.LuaError as error:
        return str(error)
    return None


HEAD = "9f" * 32
OTHER = "1e" * 32


@pytest.mark.parametrize(
    ("expected", "parents"),
    [(HEAD, [HEAD]), (HEAD, [HEAD, OTHER]), (None, [HEAD]), (None, [HEAD, OTHER]), (None, [])],
    ids=["the expected head", "a merge with a second parent", "not ours", "not ours, a merge",
         "not ours, the first commit"],
)  # fmt: skip
def test_a_merge_passes(expected: str | None, parents: list[str]) -> None:
    ours = {} if expected is None else {"perago.expected_head": expected}
    assert run_fence({"perago.phase": "confirm", **ours}, parents) is None


@pytest.mark.parametrize(
    ("expected", "parents", "found"),
    [
        (HEAD, [OTHER], OTHER),
        (HEAD, [OTHER, HEAD], OTHER),
        (HEAD, [], "nil"),
        (HEAD[:16], [HEAD], HEAD),
        (HEAD.upper(), [HEAD], HEAD),
        (f"{HEAD} ", [HEAD], HEAD),
        ("main", [HEAD], HEAD),
        ("", [HEAD], HEAD),
        ("nil", [HEAD], HEAD),
    ],
    ids=["the head moved", "the expected head is only the second parent", "no parent",
         "a short id", "upper case", "a space", "a branch name", "empty", "the word nil"],
)  # fmt: skip
def test_a_merge_is_refused_and_says_why(expected: str, parents: list[str], found: str) -> None:
    text = run_fence({"perago.expected_head": expected}, parents)
    assert text is not None
    assert f"{HEAD_MOVED_TEXT} {expected} {found}" in text


def test_the_file_is_one_pre_merge_lua_hook_on_every_branch() -> None:
    """Read without YAML 1.1's booleans, which would turn the key `on` into true."""
    file = yaml.load(FENCE_FILE, Loader=yaml.BaseLoader)  # noqa: S506 - strings only
    assert file["on"] == {"pre-merge": ""}
    assert [hook["type"] for hook in file["hooks"]] == ["lua"]
    assert [hook["properties"] for hook in file["hooks"]] == [{"script": FENCE_SCRIPT}]
    assert set(file) == {"name", "description", "on", "hooks"}


@pytest.mark.parametrize(
    ("content", "state"),
    [
        (None, FenceState.ABSENT),
        (FENCE_FILE, FenceState.TRUSTED),
        (b"", FenceState.ALTERED),
        (FENCE_FILE + b"\n", FenceState.ALTERED),
        (FENCE_FILE.replace(b"\n", b"\r\n"), FenceState.ALTERED),
        (FENCE_FILE.replace(b"pre-merge:", b"pre-merge: {branches: [dev]}"), FenceState.ALTERED),
        (FENCE_FILE.replace(b"pre-merge", b"pre-commit"), FenceState.ALTERED),
        (FENCE_FILE.replace(b"error(", b"print("), FenceState.ALTERED),
    ],
    ids=["no file", "ours", "empty", "one byte more", "other line ends", "a branch filter",
         "another event", "a neutered script"],
)  # fmt: skip
def test_a_fence_is_recognised_by_its_bytes(content: bytes | None, state: FenceState) -> None:
    assert recognise_fence(content) is state


def test_a_shipped_file_never_changes_by_a_byte() -> None:
    """Repositories hold it; a changed text is a new version in front of the old one."""
    digests = [sha256(content).hexdigest() for content in SHIPPED_FENCE_FILES]
    assert digests == ["0c43329c6fe9014a9cbce430025103a54ba6755399c9fff0612813a44268f160"]


def test_every_shipped_version_is_trusted_and_the_newest_is_installed() -> None:
    assert SHIPPED_FENCE_FILES[0] == FENCE_FILE
    assert {recognise_fence(content) for content in SHIPPED_FENCE_FILES} == {FenceState.TRUSTED}
