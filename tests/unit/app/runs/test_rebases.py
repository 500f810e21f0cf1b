"""Any changes of a run onto any changes of its target: exactly both, or nothing."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.app.attempt.fault_world import reason_of
from tests.unit.app.runs.run_world import FINISH, RunWorld

from perago.domain.attempt import AttemptStatus
from perago.domain.finish import History, OnMoved
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


def clashes(files: Mapping[str, bytes]) -> bool:
    """Whether a file is a folder as well."""
    return any(other.startswith(f"{path}/") for path in files for other in files)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(BASE, CHANGES, CHANGES, st.sampled_from(History))
async def test_a_rebase_has_the_changes_of_both_sides_and_no_other(
    base: dict[str, bytes],
    mine: dict[str, bytes | None],
    theirs: dict[str, bytes | None],
    history: History,
) -> None:
    with TemporaryDirectory() as root:
        world = RunWorld(Path(root), on_moved=OnMoved.REBASE, history=history)
        world.repository.commit({**base, "m/first": b"x"})
        await world.start()
        await world.until(FINISH)
        before = world.repository.files()
        run = await world.begun()
        world.repository.commit({**mine, "mine": b"x"}, branch=run.run_branch)
        head = world.repository.commit({**theirs, "theirs": b"x"})
        run_tree, target_tree = world.repository.files(run.run_branch), world.repository.files()
        workspace = {"repository": "repo", "branch": run.run_branch, "ref_type": "commit"}
        report = await world.finish_again(workspace={**workspace, "ref": world.run_head})
    of_run, of_target = difference(before, run_tree), difference(before, target_tree)
    expected = changed(target_tree, {path: run_tree.get(path) for path in of_run})
    if report.error is None:
        assert world.repository.files() == expected
        assert not of_run & of_target
        assert world.runs_on_target()[0].parents[0] == head
        return
    assert world.repository.head().commit == head
    assert isinstance(report.update, TerminalUpdate)
    assert report.update.status is AttemptStatus.FAILED_WITH_TERMINAL_ERROR
    if "PRG-N005" in reason_of(report):
        assert of_run & of_target or clashes(expected)
    else:  # the merge of lakeFS lost an object, and the proof saw it
        assert "PRG-N007" in reason_of(report)
