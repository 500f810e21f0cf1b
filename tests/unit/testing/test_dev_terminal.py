"""`perago dev` on a terminal: what is drawn while a run goes on and after it, and hostile text."""

import io

from rich.console import Console, Group
from tests.kit_cases import counting_task, hostile_scene

from perago.app.page.model import PageView
from perago.testing import AttemptStory, Story, crash, foreign_commit, sequence
from perago.testing.dev import DevRequest, DevRun, RunReport, drawn, live_view, run_scene
from perago.testing.story import Event, EventKind

HOSTILE = "\x1b]0;stolen\x07[red]not markup[/red]\r\x1b[2J"
HEIGHT = 24


def _screen(*lines: str, live: bool = False, error: str = "", colours: bool = False) -> str:
    console = Console(file=io.StringIO(), width=140, height=HEIGHT, force_terminal=colours)
    page = PageView("perago dev", live=live, error=error)
    console.print(Group(drawn(RunReport(page, lines), HEIGHT)))  # whole, as `Live` draws it
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


async def _seen(policy: str) -> tuple[list[RunReport], DevRun]:
    clean, _ = counting_task()
    request = DevRequest(
        definitions=[sequence("flow", clean)],
        tasks=[clean],
        files={"data/in.txt": "in"},
        workflow_input={"params": {"clean": {}}},
        faults=[crash(after="merge"), foreign_commit(after="complete", attempt=2)],
    )
    seen: list[RunReport] = []

    def look(run: DevRun) -> None:
        seen.append(RunReport(PageView("", (run.scene,)), tuple(run.lines())))

    return seen, await run_scene(request, policy, look)


async def test_a_finished_run_shows_tasks_attempts_phases_and_commits() -> None:
    _, run = await _seen("settled")
    tasks = drawn(RunReport(PageView("perago dev", (run.scene,)), ()), HEIGHT)
    assert tasks.plain == "clean COMPLETED", "the states of tasks, also of one that waits"
    shown = _screen(*run.lines())
    for text in (
        "policy settled",
        "clean attempt 1 (worker-1): DIED",
        "clean attempt 2 (worker-2): COMPLETED recorded",
    ):
        assert text in shown
    for kind in ("published", "staged", "foreign", "root", "<perago-settled-"):
        assert kind in shown
    assert "the process dies after merge" in shown
    assert len(shown.splitlines()) >= len(list(run.lines())) > HEIGHT


async def test_a_run_is_seen_while_it_goes_on() -> None:
    seen, _ = await _seen("settled")
    (scene,) = seen[0].page.scenes
    assert scene.status == "RUNNING"
    assert [attempt.status for attempt in scene.attempts] == ["RUNNING"]
    assert "RUNNING" in _screen(*seen[0].lines, live=True)


def test_of_a_run_that_goes_on_the_newest_lines_fit_the_terminal() -> None:
    lines = [f"line {number} {'x' * 200}" for number in range(2 * HEIGHT)]
    shown = _screen(*lines, live=True).splitlines()
    assert [line.split()[1] for line in shown] == [str(HEIGHT + n) for n in range(HEIGHT)]


def test_the_words_of_a_story_have_colours() -> None:
    shown = _screen("clean attempt 1 (worker-1): DIED", colours=True)
    assert "\x1b[31mDIED" in shown


def test_text_of_tasks_is_neither_markup_nor_control_characters() -> None:
    event = Event(0.0, EventKind.OUTPUT, HOSTILE, {HOSTILE: HOSTILE})
    attempt = AttemptStory(HOSTILE, HOSTILE, HOSTILE, "", "", 1, [event], HOSTILE, reason=HOSTILE)
    run = DevRun(hostile_scene(HOSTILE), Story((), (attempt,), ()))
    for shown in (_screen(*run.lines()), _screen(error=HOSTILE)):
        assert "[red]not markup[/red]" in shown
        assert "\x1b" not in shown
        assert "\x07" not in shown


def test_a_terminal_is_redrawn_in_place() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True)
    with live_view(console) as draw:
        draw(RunReport(PageView("t"), ("first", "RUNNING")))
        draw(RunReport(PageView("t"), ("second", "RUNNING")))
    file = console.file
    assert isinstance(file, io.StringIO)
    first, _, second = file.getvalue().partition("second")
    assert "first" in first
    assert "\x1b[1A" in first
    assert "first" not in second
