"""The public 0.6.1 and ours, side by side on the same task modules.

Each shape is checked and extracted by both; the answers are equal, or differ for the reason
that stands beside the shape. Needs no server; the peer is installed once per user.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.surface_refusals import ACCEPTED, BAD
from tests.integration.surface_shapes import GOOD, HEAD, Shape
from tools.peer import peer_environment

SHAPES = GOOD + BAD + ACCEPTED
ENOUGH = 40
DRIVER = Path(__file__).with_name("surface_driver.py")
# The workspace takes both spellings of its reference type; every workspace task differs in that.
BOTH_SPELLINGS = "workspace"
HEAVY = "pyspark opentelemetry dependency_injector aiohttp"
MAKING_THE_PEER_SECONDS = 600

Answers = dict[str, dict[str, Any]]

pytestmark = pytest.mark.timeout(MAKING_THE_PEER_SECONDS)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with every shape as a module."""
    project = tmp_path_factory.mktemp("surface")
    for shape in SHAPES:
        (project / f"{shape.module}.py").write_text(HEAD + shape.text)
    return project


def environment(project: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(project),
        "PERAGO_WORKSPACE_ROOT": str(project / "workspaces"),
        "PERAGO_LOG_ROOT": str(project / "logs"),
    }


def answers_of(side: str, python: Path, project: Path) -> Answers:
    here = project / side
    here.mkdir()
    done = subprocess.run(
        [str(python), str(DRIVER), side, *(shape.module for shape in SHAPES)],
        cwd=here,
        env=environment(project),
        capture_output=True,
        text=True,
        check=True,
    )
    answers: Answers = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def peer(project: Path) -> Answers:
    """Return what 0.6.1 says of every shape."""
    return answers_of("peer", peer_environment() / "bin" / "python", project)


@pytest.fixture(scope="module")
def ours(project: Path) -> Answers:
    """Return what we say of every shape."""
    return answers_of("ours", Path(sys.executable), project)


def said(err: str) -> list[str]:
    """Errors and warnings: a first line is theirs and ours, what follows is help of ours."""
    return [line for line in err.splitlines() if line.startswith(("error:", "warning:"))]


def taskdef(text: str | None) -> str | None:
    """Return a TaskDef as text, in its own order of keys, without the workspace's schema."""
    if text is None:
        return None
    document = json.loads(text)
    for side in ("inputSchema", "outputSchema"):
        document[side]["data"]["properties"].pop(BOTH_SPELLINGS, None)
    return json.dumps(document)


def differences(theirs: dict[str, Any], our: dict[str, Any]) -> Iterator[str]:
    for command in ("check", "extract"):
        for part in ("code", "out", "raised"):
            if theirs[command][part] != our[command][part]:
                yield f"{command} {part}: {theirs[command][part]} / {our[command][part]}"
        if said(theirs[command]["err"]) != said(our[command]["err"]):
            yield f"{command} err: {theirs[command]['err']} / {our[command]['err']}"
    if taskdef(theirs["taskdef"]) != taskdef(our["taskdef"]):
        yield f"taskdef: {theirs['taskdef']} / {our['taskdef']}"


def test_there_are_enough_shapes_with_names_of_their_own() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= ENOUGH


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_both_answer_alike_or_for_a_reason(peer: Answers, ours: Answers, shape: Shape) -> None:
    found = list(differences(peer[shape.module], ours[shape.module]))
    if not shape.differs:
        assert not found, "\n".join(found)
        return
    assert found, f"no difference any more: {shape.differs}"
    assert ours[shape.module]["check"]["err"].startswith(shape.ours)
    assert not ours[shape.module]["check"]["raised"]


def test_every_good_shape_is_good_for_us(ours: Answers) -> None:
    failed = [shape.name for shape in GOOD if ours[shape.module]["extract"]["code"]]
    assert not failed
    assert all(ours[shape.module]["check"]["code"] == 1 for shape in BAD)
    assert all(ours[shape.module]["check"]["code"] == 0 for shape in ACCEPTED)


def seconds(command: list[str], project: Path) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=project, env=environment(project), capture_output=True, check=True)
    return time.perf_counter() - started


def test_check_takes_at_most_a_third_of_the_time(project: Path) -> None:
    target = ["check", "shape_minimal"]
    theirs = [str(peer_environment() / "bin" / "perago"), *target]
    own = [sys.executable, "-m", "perago", *target]
    rounds = [(seconds(theirs, project), seconds(own, project)) for _ in range(5)]
    best_peer, best_own = min(each for each, _ in rounds), min(each for _, each in rounds)
    assert best_own <= best_peer / 3, rounds


def test_check_imports_nothing_heavy(project: Path) -> None:
    script = (
        "import sys\nfrom perago.__main__ import main\n"
        "sys.argv = ['perago', 'check', 'shape_minimal']\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code\n"
        f"print('heavy:', *set('{HEAVY}'.split()) & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=project,
        env=environment(project),
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"^heavy:$", done.stdout, re.MULTILINE), done.stdout
