"""`perago dev`: faults as words, the run, the page's HTML and who may ask for it."""

import json
import re
from http import HTTPStatus
from pathlib import Path
from typing import get_args

import pytest
from tests.kit_cases import CASES, Case, counting_task

from perago.testing import (
    Fault,
    arrive_late,
    crash,
    expire_lease,
    foreign_commit,
    lose_answer,
    sequence,
    zombie,
)
from perago.testing.definitions import as_list, as_object
from perago.testing.dev.command import parse_fault
from perago.testing.dev.page_server import (
    HEADERS,
    Shown,
    answer,
    branch_graph,
    page_html,
    scenes_html,
)
from perago.testing.dev.scenes import DevRequest, run_scenes

PORT = 8123
HOSTILE = '<script>alert("x")</script>&"\'</pre>'


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


async def test_the_page_shows_both_policies_their_commits_and_faults() -> None:
    fault = foreign_commit(after="stage")
    scenes = [await _scene(fault), await _scene(fault, policy="head-parent")]
    html = page_html({"title": "dev", "scenes": scenes})
    assert "policy settled" in html
    assert "policy head-parent" in html
    assert html.count("<svg") == 2
    for kind in ("published", "staged", "foreign", "root"):
        assert f'class="commit {kind}"' in html
    assert "left the history of main" in html
    assert '<li class="fault">' in html


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
    html = page_html({"title": "dev", "scenes": [settled, head_parent]})
    policies = re.findall(r'<p class="policy">policy ([a-z-]+)</p>', html)
    assert policies == ["settled", "head-parent"]
    assert html.count('<li class="fault">') >= 2 * len(case.faults)
    assert html.count("<svg") == 2


async def test_an_abandoned_publication_and_a_decision_are_drawn() -> None:
    lineage = await _scene(crash(after="merge"), policy="lineage")
    assert 'class="commit abandoned"' in scenes_html({"scenes": [lineage]})
    settled = await _scene(crash(after="merge"))
    assert 'class="decision"' in scenes_html({"scenes": [settled]})


def test_every_value_is_escaped() -> None:
    values = dict.fromkeys(
        ("reference", "number", "worker", "status", "recorded", "reason", "name", "text", "kind"),
        HOSTILE,
    )
    event = {**values, "facts": {HOSTILE: HOSTILE}, "seconds": HOSTILE}
    commit = {**values, "id": HOSTILE, "task": HOSTILE, "message": HOSTILE, "tags": [HOSTILE]}
    branch = {**values, "commits": [{**commit, "parents": [], "attempt": HOSTILE}]}
    story = {
        "workflows": [{**values, "rows": [values]}],
        "attempts": [{**values, "events": [event]}],
        "repositories": [{**values, "branches": [branch]}],
    }
    scene = {"title": HOSTILE, "policy": HOSTILE, "broken": [HOSTILE], "story": story}
    html = page_html({"title": HOSTILE, "scenes": [scene]})
    assert html.count("<script") == 1
    assert "alert(" in html
    assert HOSTILE not in html
    assert '"x"' not in html
    assert "&lt;script&gt;" in html


def test_an_error_is_escaped_too() -> None:
    assert HOSTILE not in page_html({"error": HOSTILE})


def test_a_task_cannot_write_markup_through_its_output() -> None:
    event: dict[str, object] = {"kind": "output", "text": HOSTILE, "seconds": 0}
    html = scenes_html({"scenes": [{"story": {"attempts": [{"events": [event]}]}}]})
    assert "<script" not in html


def test_a_graph_of_nothing_is_a_graph() -> None:
    assert branch_graph({}).startswith("<svg")


SHOWN = Shown({"title": "t", "scenes": []})


@pytest.mark.parametrize("path", ["/", "/scenes.html", "/story.json", "/version", "/page.css"])
@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}"])
def test_loopback_is_answered(path: str, host: str) -> None:
    assert answer(SHOWN, path, host, PORT).status is HTTPStatus.OK


@pytest.mark.parametrize(
    "host", ["", "evil.example", f"evil.example:{PORT}", "127.0.0.1", "localhost:1", "0.0.0.0:8123"]
)
def test_other_hosts_get_nothing(host: str) -> None:
    found = answer(SHOWN, "/story.json", host, PORT)
    assert found.status is HTTPStatus.MISDIRECTED_REQUEST
    assert "scenes" not in found.body


@pytest.mark.parametrize("path", ["/../page.py", "/page.py", "//", "/story.json?x", "/%2e%2e"])
def test_nothing_else_is_served(path: str) -> None:
    assert answer(SHOWN, path, f"localhost:{PORT}", PORT).status is HTTPStatus.NOT_FOUND


def test_the_page_loads_nothing_from_elsewhere() -> None:
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]
    for path in ("/", "/page.css", "/page.js"):
        body = answer(SHOWN, path, f"localhost:{PORT}", PORT).body
        assert "http:" not in body
        assert "https:" not in body


def test_an_update_is_seen_by_its_number() -> None:
    shown = Shown({})
    shown.update(as_object({"title": "new"}))
    assert answer(shown, "/version", f"localhost:{PORT}", PORT).body == "1"
    assert "new" in answer(shown, "/", f"localhost:{PORT}", PORT).body


def test_the_page_and_its_parts_are_in_the_package() -> None:
    import perago.testing.dev as package  # noqa: PLC0415 - its place is what is asked

    (place,) = package.__path__
    assert {"page.css", "page.js"} <= {path.name for path in Path(place).iterdir()}


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
    scene = await run_scenes(request, "settled")
    repositories = as_list(as_object(scene["story"])["repositories"])
    return branch_graph(as_object(repositories[0]))


def _published(graph: str) -> dict[str, tuple[int, int]]:
    """Where each published commit stands, by its label."""
    dots = re.findall(
        r'class="commit published">.*?cx="(\d+)" cy="(\d+)".*?<text x[^>]*>([^<]*)<', graph
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
