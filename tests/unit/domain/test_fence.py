"""The fence we ship: its file, and its very Lua text run by Lua 5.2 as lakeFS runs it."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

import pytest
import yaml
from lupa import lua52

from perago.domain.fence import (
    FENCE_FILE,
    FENCE_FILE_1,
    FENCE_SCRIPT,
    FENCE_SCRIPT_1,
    HEAD_MOVED_TEXT,
    PRIVATE_BRANCH_TEXT,
    SHIPPED_FENCE_FILES,
    FenceState,
    SeenFence,
    recognise_fence,
)
from perago.domain.names import (
    CANARY_BRANCH_PREFIX,
    DECISION_TAG_PREFIX,
    PRIVATE_BRANCH_PREFIXES,
    RUN_BRANCH_PREFIX,
    SCRATCH_BRANCH_PREFIX,
    STAGING_BRANCH_PREFIX,
)


def run_fence(
    metadata: Mapping[str, str],
    parents: Sequence[str],
    *,
    source: str = "feature",
    script: str = FENCE_SCRIPT,
) -> str | None:
    """Run the hook on one commit as lakeFS presents it; the text of its refusal, or None."""
    lua = lua52.LuaRuntime(unpack_returned_tuples=True)
    commit = lua.table_from(
        {"metadata": lua.table_from(metadata), "parents": lua.table_from(parents)}
    )
    lua.globals()["action"] = lua.table_from({"commit": commit, "merge_source": source})
    try:
        lua.execute(script)
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


PRIVATE = (STAGING_BRANCH_PREFIX, RUN_BRANCH_PREFIX, SCRATCH_BRANCH_PREFIX, DECISION_TAG_PREFIX)


@pytest.mark.parametrize("prefix", PRIVATE)
@pytest.mark.parametrize("rest", ["", "x-1", "x~2", "x@"])
def test_a_private_branch_is_merged_only_with_an_expected_head(prefix: str, rest: str) -> None:
    source = f"{prefix}{rest}"
    refused = run_fence({"perago.phase": "confirm"}, [HEAD], source=source)
    assert refused is not None
    assert f"{PRIVATE_BRANCH_TEXT} {source}: publish through Perago" in refused
    assert "perago explain PRG-F027" in refused
    assert run_fence({"perago.expected_head": HEAD}, [HEAD], source=source) is None
    assert run_fence({}, [HEAD], source=source, script=FENCE_SCRIPT_1) is None


@pytest.mark.parametrize(
    "source",
    [HEAD, HEAD[:12], "main", "", "perago-settle", f"my-{STAGING_BRANCH_PREFIX}x",
     f"{CANARY_BRANCH_PREFIX}fence-1", "perago-attempt-1", "perago-relocated-1"],
)  # fmt: skip
def test_any_other_source_passes(source: str) -> None:
    """A commit id too: the hook is told nothing of it but the id."""
    assert run_fence({}, [HEAD, OTHER], source=source) is None


def test_every_private_branch_but_a_canarys_is_covered() -> None:
    """A canary's branches hold nothing, and the fence itself is installed from one."""
    assert set(PRIVATE_BRANCH_PREFIXES) - {CANARY_BRANCH_PREFIX} < set(PRIVATE)


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
    assert recognise_fence(content).state is state


def test_a_shipped_file_never_changes_by_a_byte() -> None:
    """Repositories hold it; a changed text is a new version in front of the old one."""
    digests = [sha256(content).hexdigest() for content in SHIPPED_FENCE_FILES]
    assert digests == [
        "9c209710c658cceacc38c1bebef6bd04790c7ba3f27464af8edb3d3fc25af386",
        "0c43329c6fe9014a9cbce430025103a54ba6755399c9fff0612813a44268f160",
    ]


def test_every_shipped_version_is_trusted_and_the_newest_is_installed() -> None:
    assert SHIPPED_FENCE_FILES[0] == FENCE_FILE
    assert recognise_fence(FENCE_FILE) == SeenFence(FenceState.TRUSTED, 2)
    assert recognise_fence(FENCE_FILE_1) == SeenFence(FenceState.TRUSTED, 1)
