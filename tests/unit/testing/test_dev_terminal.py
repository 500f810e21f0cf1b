"""`perago dev` on a terminal: what is drawn while a run goes on and after it, and hostile text."""

import io

from rich.console import Console
from tests.kit_cases import counting_task, hostile_scene

from perago.app.page.model import PageView, SceneView
from perago.testing import crash, foreign_commit, sequence
from perago.testing.dev import DevRequest, run_scene
from perago.testing.story_views import drawn, live_view

HOSTILE = "\x1b]0;stolen\x07[red]not markup[/red]\r\x1b[2J"


def _screen(*scenes: SceneView, error: str = "") -> str:
    console = Console(file=io.StringIO(), width=140, force_terminal=False)
    console.print(drawn(PageView("perago dev", scenes, error=error)))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


async def _seen(policy: str) -> tuple[list[SceneView], SceneView]:
    clean, _ = counting_task()
    request = DevRequest(
        definitions=[sequence("flow", clean)],
        tasks=[clean],
        files={"data/in.txt": "in"},
        workflow_input={"params": {"clean": {}}},
        faults=[crash(after="merge"), foreign_commit(after="complete", attempt=2)],
    )
    seen: list[SceneView] = []
    return seen, (await run_scene(request, policy, seen.append)).scene


async def test_a_finished_run_shows_tasks_attempts_phases_and_commits() -> None:
    _, scene = await _seen("settled")
    shown = _screen(scene)
    for text in ("policy settled", "clean attempt 1 DIED", "clean attempt 2 COMPLETED recorded"):
        assert text in shown
    for kind in ("published", "staged", "foreign", "root", "decided"):
        assert kind in shown
    assert "the process dies after merge" in shown
    assert "more before" not in shown.partition("attempt 2")[0].partition("attempt 1")[0]


async def test_a_run_is_seen_while_it_goes_on() -> None:
    seen, _ = await _seen("settled")
    assert seen[0].status == "RUNNING"
    assert [attempt.status for attempt in seen[0].attempts] == ["RUNNING"]
    assert "RUNNING" in _screen(seen[0])


def test_text_of_tasks_is_neither_markup_nor_control_characters() -> None:
    for shown in (_screen(hostile_scene(HOSTILE)), _screen(error=HOSTILE)):
        assert "[red]not markup[/red]" in shown
        assert "\x1b" not in shown
        assert "\x07" not in shown


def test_a_terminal_is_redrawn_in_place() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with live_view(console) as draw:
        draw(PageView("t", (SceneView("first", "RUNNING", "seconds"),)))
        draw(PageView("t", (SceneView("second", "RUNNING", "seconds"),)))
    file = console.file
    assert isinstance(file, io.StringIO)
    first, _, second = file.getvalue().partition("second")
    assert "first" in first
    assert "\x1b[1A" in first
    assert "first" not in second
