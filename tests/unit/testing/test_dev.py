"""`perago dev`: faults as words, the run, and what its page shows of it."""

import json
import re
from typing import get_args

import pytest
from tests.kit_cases import CASES, Case, counting_task

from perago.app.page.commit_graph import branch_graph
from perago.app.page.model import PageView, RunState, Seen, Step
from perago.testing import (
    Fault,
    arrive_late,
    crash,
    drain,
    expire_lease,
    foreign_commit,
    lose_answer,
    sequence,
    zombie,
)
from perago.testing.definitions import as_list
from perago.testing.dev.command import parse_fault
from perago.testing.dev.scenes import DevRequest, run_scenes
from perago.testing.dev.story_page import page_of, scene_of


async def _scene(*faults: Fault, policy: str = "settled") -> dict[str, object]:
    clean, _ = counting_task()
    request = DevRequest(
        definitions=[sequence("flow", clean)],
        tasks=[clean],
        files={"data/in.txt": "in"},
        workflow_input={"params": {"clean": {}}},
        faults=faults,
    )
    return await run_scenes(request, policy)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("crash:before=merge", crash(before="merge")),
        ("crash:after=body,task=clean,attempt=2", crash(after="body", task="clean", attempt=2)),
        ("lose-answer:point=merge,nth=2", lose_answer("merge", nth=2)),
        ("arrive-late:point=merge,until=idle", arrive_late("merge", until="idle")),
        ("zombie", zombie()),
        ("zombie:until=retried", zombie(until="retried")),
        ("drain:before=download", drain(before="download")),
        ("expire-lease:", expire_lease()),
        ("foreign-commit:after=stage", foreign_commit(after="stage")),
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
        ("lose-answer", "point"),
        ("crash:before=merge,nth=x", "x"),
    ],
)
def test_words_that_are_no_fault_are_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_fault(text)


async def test_params_that_are_not_given_are_empty() -> None:
    clean, _ = counting_task()
    scene = await run_scenes(DevRequest([sequence("flow", clean)], [clean], {}, {}), "settled")
    assert scene["status"] == "COMPLETED"


async def test_a_run_is_a_document_that_json_can_carry() -> None:
    scene = await _scene(crash(after="merge"))
    assert json.loads(json.dumps(scene))["status"] == "COMPLETED"
    assert scene["broken"] == []


async def test_a_fault_that_never_happens_is_said() -> None:
    (broken,) = as_list((await _scene(crash(before="relocate")))["broken"])
    assert "its moment never came" in str(broken)


def _kinds(page: PageView) -> set[str]:
    return {
        commit.kind
        for scene in page.scenes
        for repository in scene.repositories
        for branch in repository.branches
        for commit in branch.commits
    }


def _faults(page: PageView) -> list[str]:
    return [
        event.text
        for scene in page.scenes
        for attempt in scene.attempts
        for event in attempt.events or ()
        if event.kind == "fault"
    ]


async def test_the_page_shows_both_policies_their_commits_and_faults() -> None:
    fault = foreign_commit(after="stage")
    scenes = [await _scene(fault), await _scene(fault, policy="head-parent")]
    page = page_of({"title": "dev", "scenes": scenes})
    assert [scene.policy for scene in page.scenes] == ["settled", "head-parent"]
    assert [len(scene.repositories) for scene in page.scenes] == [1, 1]
    assert {"published", "staged", "foreign", "root"} <= _kinds(page)
    assert "left the history of main" in " ".join(page.scenes[1].problems)
    assert len(_faults(page)) == 2


async def test_the_steps_of_an_attempt_that_died_end_where_it_died() -> None:
    scene = scene_of(await _scene(crash(after="stage")))
    died, retried = scene.attempts
    seen = {step.name for step in died.steps if step.seen is Seen.SEEN}
    assert seen == {Step.POLLED, Step.INPUT, Step.RAN}
    assert (died.status, died.ended) == ("DIED", True)
    assert {step.name for step in retried.steps if step.at is None} == {Step.QUEUED}
    published = {step.name: step.ref for step in retried.steps}[Step.PUBLISHED]
    assert published in {each.id for each in scene.repositories[0].branches[0].commits}


COMPARED = {type(fault): case for case in CASES for fault in case.faults}


def test_every_fault_of_the_kit_is_compared() -> None:
    assert set(COMPARED) == set(get_args(Fault))


@pytest.mark.parametrize("case", COMPARED.values(), ids=lambda case: case.id)
async def test_each_fault_is_shown_under_head_parent_beside_settled(case: Case) -> None:
    settled = await _scene(*case.faults)
    head_parent = await _scene(*case.faults, policy="head-parent")
    assert (settled["status"], head_parent["status"]) == (
        case.settled.workflow,
        case.head_parent.workflow,
    )
    page = page_of({"title": "dev", "scenes": [settled, head_parent]})
    assert [scene.policy for scene in page.scenes] == ["settled", "head-parent"]
    assert len(_faults(page)) >= 2 * len(case.faults)
    assert [len(scene.repositories) for scene in page.scenes] == [1, 1]


async def test_an_abandoned_publication_and_a_decision_are_drawn() -> None:
    lineage = scene_of(await _scene(crash(after="merge"), policy="lineage"))
    assert 'class="commit abandoned"' in branch_graph(lineage.repositories[0]).svg
    settled = scene_of(await _scene(crash(after="merge")))
    assert 'class="decision"' in branch_graph(settled.repositories[0]).svg


def test_a_document_that_is_none_of_ours_is_an_empty_page() -> None:
    attempts: list[dict[str, object]] = [{}]
    page = page_of({"error": "no module", "scenes": [{"story": {"attempts": attempts}}, 3]})
    assert page.error == "no module"
    assert [len(scene.attempts) for scene in page.scenes] == [1, 0]


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
    scene = scene_of(await run_scenes(request, "settled"))
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
