"""`perago dev`: faults as words, the run, and what its page shows of it."""

import json
import re
import sys

import pytest
from tests.kit_cases import CASES, Case, counting_task

from perago.app.page.commit_graph import branch_graph
from perago.app.page.model import PageView, RunState, SceneView, Seen, Step
from perago.testing import (
    Fault,
    Story,
    arrive_late,
    crash,
    drain,
    expire_lease,
    faults,
    foreign_commit,
    lose_answer,
    outage,
    sequence,
    zombie,
)
from perago.testing.dev import (
    DevRequest,
    DevRun,
    RunReport,
    parse_fault,
    run_aside,
    run_scene,
    tell,
)


async def _played(*faults: Fault, policy: str = "settled") -> DevRun:
    clean, _ = counting_task()
    request = DevRequest(
        definitions=[sequence("flow", clean)],
        tasks=[clean],
        files={"data/in.txt": "in"},
        workflow_input={"params": {"clean": {}}},
        faults=faults,
    )
    return await run_scene(request, policy)


async def _scene(*faults: Fault, policy: str = "settled") -> SceneView:
    return (await _played(*faults, policy=policy)).scene


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("crash:before=merge", crash(before="merge")),
        (
            "crash:after=function,task=clean,attempt=2",
            crash(after="function", task="clean", attempt=2),
        ),
        ("lose-answer:point=merge,nth=2", lose_answer("merge", nth=2)),
        ("arrive-late:point=merge,until=idle", arrive_late("merge", until="idle")),
        ("zombie", zombie()),
        ("zombie:until=retried", zombie(until="retried")),
        ("drain:before=download", drain(before="download")),
        ("expire-lease:", expire_lease()),
        ("foreign-commit:after=stage", foreign_commit(after="stage")),
        ("outage:before=stage,seconds=2.5", outage(before="stage", seconds=2.5)),
    ],
)
def test_faults_are_words(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("explode", "expected one of crash, "),
        ("crash:merge", "expected key=value"),
        ("crash:when=now", "when"),
        ("crash:before=noon", "noon"),
        ("outage:before=stage,seconds=0", "for some seconds, found 0.0"),
        ("outage:before=stage,seconds=nan", "for some seconds, found nan"),
        ("lose-answer", "point"),
        ("crash:before=merge,nth=x", "x"),
    ],
)
def test_words_that_are_no_fault_are_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_fault(text)


async def test_params_that_are_not_given_are_empty() -> None:
    clean, _ = counting_task()
    played = await run_scene(DevRequest([sequence("flow", clean)], [clean], {}, {}), "settled")
    assert played.scene.status == "COMPLETED"


async def test_a_run_is_a_document_that_json_can_carry() -> None:
    document = (await _played(crash(after="merge"))).document()
    assert json.loads(json.dumps(document))["status"] == "COMPLETED"
    assert document["broken"] == []


async def test_a_fault_that_never_happens_is_said() -> None:
    (problem,) = (await _scene(crash(before="relocate"))).problems
    assert "its moment never came" in problem


def _kinds(scene: SceneView) -> set[str]:
    return {
        commit.kind
        for repository in scene.repositories
        for branch in repository.branches
        for commit in branch.commits
    }


def _faults(scene: SceneView) -> list[str]:
    return [
        event.text
        for attempt in scene.attempts
        for event in attempt.events or ()
        if event.kind == "fault"
    ]


async def test_a_scene_has_its_policy_commits_problems_and_faults() -> None:
    fault = foreign_commit(after="stage")
    for policy in ("settled", "head-parent"):
        scene = await _scene(fault, policy=policy)
        assert scene.policy == policy
        assert len(scene.repositories) == 1
        assert len(_faults(scene)) == 1
        lost = "left the history of main" in " ".join(scene.problems)
        assert lost is (policy == "head-parent")
        assert {"published" if lost else "staged", "foreign", "root"} <= _kinds(scene)


async def test_the_steps_of_an_attempt_that_died_end_where_it_died() -> None:
    scene = await _scene(crash(after="stage"))
    died, retried = scene.attempts
    seen = {step.name for step in died.steps if step.seen is Seen.SEEN}
    assert seen == {Step.POLLED, Step.INPUT, Step.RAN}
    assert (died.status, died.ended) == ("DIED", True)
    assert {step.name for step in retried.steps if step.at is None} == {Step.QUEUED}
    published = {step.name: step.ref for step in retried.steps}[Step.PUBLISHED]
    assert published in {each.id for each in scene.repositories[0].branches[0].commits}


COMPARED = {type(fault): case for case in CASES for fault in case.faults}


def test_every_fault_of_the_kit_is_compared() -> None:
    kinds = [each for each in vars(faults).values() if isinstance(each, type)]
    assert set(COMPARED) == {each for each in kinds if issubclass(each, Fault)} - {Fault}


@pytest.mark.parametrize("case", COMPARED.values(), ids=lambda case: case.id)
async def test_each_fault_is_shown_under_head_parent_beside_settled(case: Case) -> None:
    for policy, ends in (("settled", case.settled), ("head-parent", case.head_parent)):
        scene = await _scene(*case.faults, policy=policy)
        assert scene.status == ends.workflow
        assert len(_faults(scene)) >= len(case.faults)
        assert len(scene.repositories) == 1


async def test_an_abandoned_publication_and_a_decision_are_drawn() -> None:
    lineage = await _scene(crash(after="merge"), policy="lineage")
    assert 'class="commit abandoned"' in branch_graph(lineage.repositories[0]).svg
    settled = await _scene(crash(after="merge"))
    assert 'class="decision"' in branch_graph(settled.repositories[0]).svg


def _heard(program: str) -> list[RunReport]:
    heard: list[RunReport] = []
    run_aside([sys.executable, "-c", program], heard.append)
    return heard


async def test_what_is_sent_of_a_run_arrives_as_it_was(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`perago dev` shows what another process runs: the page goes from one to the other as JSON."""
    run = await _played(crash(after="merge"))
    tell("dev", [run], live=False)
    program = f"print('of a task'); print({capsys.readouterr().out!r})"
    page = PageView("dev", (run.scene,), live=False)
    assert _heard(program) == [RunReport(page, tuple(run.lines()))]


@pytest.mark.parametrize(
    "text", ["name \udcff", "a\nb \x1b[2J"], ids=["half a character", "an escape"]
)
def test_whatever_a_task_prints_is_heard(capsys: pytest.CaptureFixture[str], text: str) -> None:
    scene = SceneView(text, "COMPLETED", "seconds", problems=(text,))
    tell("dev", [DevRun(scene, Story((), (), ()))], live=False)
    page = PageView("dev", (scene,), live=False)
    assert _heard(f"print({capsys.readouterr().out!r})") == [
        RunReport(page, ("policy ", f"  {text}"))
    ]


def test_a_process_that_tells_no_end_is_heard_with_what_it_said() -> None:
    (report,) = _heard("print({'no': 'page'})")
    assert report.page == PageView("perago dev", live=False, error="{'no': 'page'}\n")


async def _graph_of_a_run(*faults: Fault) -> str:
    first, _ = counting_task("first")
    second, runs = counting_task("second")
    runs.append(1)  # else it would write what the first one wrote, and publish nothing
    request = DevRequest(
        definitions=[sequence("flow", first, second, transaction=True)],
        tasks=[first, second],
        files={"data/in.txt": "in"},
        workflow_input={"params": {"first": {}, "second": {}}},
        faults=faults,
    )
    scene = (await run_scene(request, "settled")).scene
    (run,) = scene.runs
    assert run.state is (RunState.HELD if faults else RunState.PUBLISHED)
    return branch_graph(scene.repositories[0]).svg


def _published(graph: str) -> dict[str, tuple[int, int]]:
    """Where each published commit stands, by its label."""
    dots = re.findall(
        r'class="commit published"[^>]*>.*?cx="(\d+)" cy="(\d+)".*?<text x[^>]*>([^<]*)<', graph
    )
    return {label: (int(x), int(y)) for x, y, label in dots}


async def test_a_run_is_a_lane_that_joins_the_target_once() -> None:
    graph = await _graph_of_a_run()
    points = _published(graph)
    (x1, y1), (x2, y2) = points["first #1"], points["second #1"]
    x3, y3 = points["perago_finish #1"]
    assert y1 == y2 > y3, "the tasks stand in one row below main"
    assert x1 < x2 < x3
    assert graph.count(f'<line class="edge" x1="{x2}" y1="{y2}" x2="{x3}" y2="{y3}"/>') == 1
    assert f'<line class="edge" x1="{x1}" y1="{y1}" x2="{x3}" y2="{y3}"/>' not in graph
    assert "run, published" in graph


async def test_a_run_that_is_held_is_a_lane_that_joins_nothing() -> None:
    graph = await _graph_of_a_run(foreign_commit(before="merge", task="perago.finish"))
    points = _published(graph)
    x, y = points["second #1"]
    assert "perago_finish #1" not in points
    assert f'<line class="edge" x1="{x}" y1="{y}"' not in graph
    assert "run, held" in graph
