"""The demonstration: every scene, under every policy, and what the command prints and returns."""

import json
import re
from pathlib import Path

import pytest

from perago.__main__ import main
from perago.testing.demo import (
    EXPECTED_REPORT,
    RAW_EVENTS,
    SCENES,
    Scene,
    aggregate,
    clean,
    closing,
    narrate,
    opening,
    play,
    report,
)
from perago.testing.environment import TaskEnvironment

LINES_MAX = 45
KEPT_BY_SOFT_RULES = SCENES[:-1]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.title)
async def test_settled_keeps_every_promise(scene: Scene) -> None:
    played = await play(scene, "settled")
    assert played.as_expected, list(narrate(1, played))
    assert played.shown.problems == ()
    assert played.shown.status == scene.expected.get("settled", "COMPLETED")


@pytest.mark.parametrize("policy", ["head-parent", "lineage"])
@pytest.mark.parametrize("scene", KEPT_BY_SOFT_RULES, ids=lambda scene: scene.title)
async def test_the_documents_policies_survive_our_own_accidents(scene: Scene, policy: str) -> None:
    played = await play(scene, policy)
    assert played.as_expected, list(narrate(1, played))
    assert played.report == EXPECTED_REPORT


async def test_a_workflow_that_is_a_transaction_leaves_the_target_untouched() -> None:
    played = await play(SCENES[-1], "settled")
    main = played.story.repositories[0].branch("main")
    assert main is not None
    root_and_events = 2  # the repository as the scene found it
    assert len(main.commits) == root_and_events + 1, "the commit of the other writer alone"
    assert main.commits[0].message == "a foreign commit"
    assert "main: events -> [foreign]" in "\n".join(narrate(4, played))


async def test_head_parent_loses_a_foreign_commit_and_the_demonstration_says_so() -> None:
    played = await play(SCENES[-1], "head-parent")
    assert [broken.partition(":")[0] for broken in played.shown.problems] == ["lost"]
    assert "head-parent does not promise more" in "\n".join(narrate(4, played))


async def test_a_crash_after_the_merge_costs_a_run_only_without_a_decision() -> None:
    crash = SCENES[1]
    assert (await play(crash, "settled")).function_runs == 3
    assert (await play(crash, "head-parent")).function_runs == 4


async def test_the_story_fits_a_screen() -> None:
    played = [await play(scene, "settled") for scene in SCENES]
    lines = [*opening("settled", "no Java"), *closing(played)]
    for number, scene in enumerate(played, start=1):
        lines += narrate(number, scene)
    assert len(lines) <= LINES_MAX


def test_the_tasks_alone_give_the_report() -> None:
    files: dict[str, bytes | str] = {"raw/events.csv": RAW_EVENTS}
    for step in (clean, aggregate, report):
        run = TaskEnvironment().run(step, files)
        TaskEnvironment().assert_completed(run)
        files = dict(run.files)
    assert files["report.json"] == EXPECTED_REPORT.encode()


@pytest.mark.parametrize(
    ("policy", "kept"), [("settled", 4), ("head-parent", 3), ("lineage", 4), ("all", 4)]
)
def test_the_command_succeeds_as_long_as_promises_hold(
    policy: str, kept: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["perago", "demo", "--no-spark", "--policy", policy])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert f"{kept} of 4 scenes lost nothing" in capsys.readouterr().out


def test_the_command_prints_json(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["perago", "demo", "--no-spark", "--json"])
    with pytest.raises(SystemExit):
        main()
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "perago.demo/1"
    assert [scene["as_expected"] for scene in document["scenes"]] == [True] * len(SCENES)
    assert document["scenes"][0]["story"]["schema"] == "perago.story/1"


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine on which no JVM can be started."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))


@pytest.mark.usefixtures("no_java")
def test_without_java_the_aggregate_is_plain_python_and_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["perago", "demo"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert re.search(r"aggregate is plain Python: .*no Java", capsys.readouterr().out)


@pytest.mark.usefixtures("no_java")
def test_spark_that_is_wanted_and_missing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["perago", "demo", "--spark"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    assert "PRG-K001" in capsys.readouterr().err
