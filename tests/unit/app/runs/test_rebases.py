"""Any changes of a run onto any changes of its target: exactly both, or nothing."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.app.attempt.attempt_harness import reason_of
from tests.unit.app.runs.run_harness import FINISH, RunHarness

from perago.domain.attempt import AttemptStatus
from perago.domain.run import History, OnMoved
from perago.ports.conductor import TerminalUpdate

# Neighbours in the order of paths, and names that sort around a slash. Few contents: an object that
# equals its neighbour is what lakeFS's merge may lose.
PATHS = ["m/a", "m/a-b", "m/a/b", "m/b", "m/b/c", "m/c"]
CHANGES = st.dictionaries(
    st.sampled_from(PATHS), st.sampled_from([b"1", b"2", None]), min_size=1, max_size=4
)
BASE = st.dictionaries(st.sampled_from(["m/a-b", "m/b", "m/c"]), st.just(b"1"))


def changed(files: Mapping[str, bytes], changes: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """A tree with changes."""
    both: dict[str, bytes | None] = {**files, **changes}
    return {path: content for path, content in both.items() if content is not None}


def difference(left: Mapping[str, bytes], right: Mapping[str, bytes]) -> set[str]:
    """The paths that differ."""
    return {path for path in left.keys() | right.keys() if left.get(path) != right.get(path)}


def clashes(mine: Mapping[str, bytes | None], theirs: Mapping[str, bytes | None]) -> bool:
    """Whether a new file of one side is a folder of the other."""
    pairs = [*product(mine.items(), theirs.items()), *product(theirs.items(), mine.items())]
    return any(
        content is not None and below is not None and other.startswith(f"{path}/")
        for (path, content), (other, below) in pairs
    )


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(BASE, CHANGES, CHANGES, st.sampled_from(History))
async def test_a_rebase_has_the_changes_of_both_sides_and_no_other(
    base: dict[str, bytes],
    mine: dict[str, bytes | None],
    theirs: dict[str, bytes | None],
    history: History,
) -> None:
    with TemporaryDirectory() as root:
        harness = RunHarness(Path(root), on_moved=OnMoved.REBASE, history=history)
        harness.repository.commit({**base, "m/first": b"x"})
        await harness.start()
        await harness.until(FINISH)
        before = harness.repository.files()
        run = await harness.begun()
        harness.repository.commit({**mine, "mine": b"x"}, branch=run.run_branch)
        head = harness.repository.commit({**theirs, "theirs": b"x"})
        run_tree, target_tree = harness.repository.files(run.run_branch), harness.repository.files()
        workspace = {"repository": "repo", "branch": run.run_branch, "ref_type": "commit"}
        report = await harness.finish_again(workspace={**workspace, "ref": harness.run_head})
    of_run, of_target = difference(before, run_tree), difference(before, target_tree)
    expected = changed(target_tree, {path: run_tree.get(path) for path in of_run})
    kept_apart = bool(of_run & of_target) or clashes(
        {path: run_tree.get(path) for path in of_run},
        {path: target_tree.get(path) for path in of_target},
    )
    if report.error is None:
        assert harness.repository.files() == expected
        assert not kept_apart
        assert harness.runs_on_target()[0].parents[0] == head
        return
    assert harness.repository.head().commit == head
    assert isinstance(report.update, TerminalUpdate)
    assert report.update.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    if "PRG-N005" in reason_of(report):
        assert kept_apart
    else:  # the merge of lakeFS lost an object, and the proof saw it
        assert "PRG-N007" in reason_of(report)


Tree = Mapping[str, bytes | None]
# Changes of the run and of the target since a base with the files `m/f` and `m/d/x`.
TWO_SIDES: dict[str, tuple[Tree, Tree, str | None]] = {
    "apart": ({"m/a": b"1"}, {"m/b": b"1"}, None),
    "one removes what the other keeps": ({"m/f": None}, {"m/b": b"1"}, None),
    "removed on both sides": ({"m/f": None}, {"m/f": None}, "m/f"),
    "the same content on both sides": ({"m/f": b"2"}, {"m/f": b"2"}, "m/f"),
    "a file over a folder": ({"m/d": b"1"}, {"m/d/y": b"1"}, "m/d"),
    "a folder over a file": ({"m/d/y": b"1"}, {"m/d": b"1"}, "m/d"),
    "a file over a folder, names between": (
        {"m/a": b"1", "m/a.b": b"1"},
        {"m/a-b": b"1", "m/a/b": b"1"},
        "m/a",
    ),
    "a file over a folder that goes": ({"m/d": b"1"}, {"m/d/x": None, "m/e": b"1"}, None),
    "a file goes, and a folder of its name comes": ({"m/f": None}, {"m/f/y": b"1"}, None),
    "both of one side": ({"m/a": b"1", "m/a/b": b"1"}, {"m/b": b"1"}, None),
    "a rename onto a name of the other": ({"m/f": None, "m/g": b"1"}, {"m/g": b"2"}, "m/g"),
    "two renames of one file": ({"m/f": None, "m/g": b"1"}, {"m/f": None, "m/h": b"1"}, "m/f"),
    "renames of two files": (
        {"m/f": None, "m/g": b"1"},
        {"m/d/x": None, "m/d/z": b"1"},
        None,
    ),
}


async def rebased(root: Path, files: Tree, mine: Tree, theirs: Tree) -> tuple[RunHarness, str]:
    """Finish a run with these changes onto a target with these; the reason of its refusal."""
    harness = RunHarness(root, on_moved=OnMoved.REBASE)
    harness.repository.commit(files)
    await harness.start()
    await harness.until(FINISH)
    run = await harness.begun()
    harness.repository.commit(mine, branch=run.run_branch)
    harness.repository.commit(theirs)
    workspace = {"repository": "repo", "branch": run.run_branch, "ref_type": "commit"}
    report = await harness.finish_again(workspace={**workspace, "ref": harness.run_head})
    return harness, "" if report.error is None else reason_of(report)


@pytest.mark.parametrize("sides", TWO_SIDES)
async def test_a_run_is_rebased_unless_the_two_sides_meet(tmp_path: Path, sides: str) -> None:
    mine, theirs, named = TWO_SIDES[sides]
    harness, reason = await rebased(tmp_path, {"m/f": b"1", "m/d/x": b"1"}, mine, theirs)
    if named is not None:
        assert "PRG-N005" in reason
        assert named in reason
        assert harness.runs_on_target() == []
        return
    assert reason == ""
    shown = harness.repository.files()
    both = {**mine, **theirs}
    assert {path: shown.get(path) for path in both} == both


async def test_a_rebase_compares_every_page_of_many_changes(tmp_path: Path) -> None:
    """The server lists a thousand at a time; the only path of both sides is the last one."""
    mine: dict[str, bytes | None] = {f"m/{number:05}a": b"1" for number in range(2_500)}
    theirs: dict[str, bytes | None] = {f"m/{number:05}b": b"2" for number in range(2_500)}
    harness, reason = await rebased(tmp_path / "apart", {}, mine, theirs)
    assert reason == ""
    shown = harness.repository.files()
    assert {path: shown[path] for path in (*mine, *theirs)} == {**mine, **theirs}
    last = max(theirs)
    harness, reason = await rebased(tmp_path / "meet", {}, {**mine, last: b"2"}, theirs)
    assert "PRG-N005" in reason
    assert f"{last} was changed by the run and on main" in reason
