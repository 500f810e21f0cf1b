"""The page of `perago dev` in headless Chromium: what it shows, and that hostile text stays text.

Run by `make browser` and `make test`; a Chromium that is missing is a failure. Writes the picture
of the docs when PERAGO_PICTURE names a file.
"""

import asyncio
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.kit_cases import counting_task
from tools.browser import REMEDY, find_browser

from perago.testing import crash, foreign_commit, sequence
from perago.testing.dev.page_server import LOOPBACK, Shown, page_server
from perago.testing.dev.scenes import DevRequest, run_scenes

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]
HOSTILE = "<img src=x onerror=\"document.title='stolen'\"><script>document.title='stolen'</script>"
BROWSER_SECONDS_MAX = 120


def _document(output: str) -> dict[str, object]:
    """One crash, one foreign commit, both policies side by side, and a task that prints."""
    scenes: list[dict[str, object]] = []
    for policy in ("settled", "head-parent"):
        clean, _ = counting_task()
        request = DevRequest(
            definitions=[sequence("flow", clean)],
            tasks=[clean],
            files={"data/in.txt": "in", "elsewhere/x.txt": "x"},
            workflow_input={"params": {"clean": {}}},
            faults=[crash(after="merge"), foreign_commit(after="complete", attempt=2)],
        )
        scenes.append(asyncio.run(run_scenes(request, policy)))
    event: dict[str, object] = {"kind": "output", "text": output, "seconds": 0}
    attempts = [{"reference": "hostile", "number": 1, "events": [event]}]
    if output:
        scenes.append({"title": output, "policy": "any", "story": {"attempts": attempts}})
    return {"title": "perago dev workflow.json", "scenes": scenes}


@pytest.fixture
def served(request: pytest.FixtureRequest) -> Iterator[str]:
    document: Mapping[str, object] = request.param
    server = page_server(Shown(document))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://{LOOPBACK}:{server.server_port}/"
    server.shutdown()
    server.server_close()


def _chromium(tmp_path: Path, *options: str) -> str:
    """One headless run; what it printed."""
    program = find_browser()
    assert program, f"no Chromium: {REMEDY}"
    command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"]
    ran = subprocess.run(
        [*command, f"--user-data-dir={tmp_path}", *options],
        capture_output=True,
        text=True,
        timeout=BROWSER_SECONDS_MAX,
        check=True,
    )
    return ran.stdout


@pytest.mark.parametrize("served", [_document(HOSTILE)], indirect=True, ids=["both policies"])
def test_the_page_shows_both_policies_and_runs_no_hostile_text(served: str, tmp_path: Path) -> None:
    shown = _chromium(tmp_path, "--virtual-time-budget=4000", "--dump-dom", served)
    assert "<title>perago dev workflow.json</title>" in shown
    assert "policy settled" in shown
    assert "policy head-parent" in shown
    for kind in ("published", "foreign", "root"):
        assert f'class="commit {kind}"' in shown
    assert "the process dies after merge" in shown
    assert shown.count("<script") == 1
    assert not re.search(r"<img", shown)
    assert "&lt;img src=x" in shown


@pytest.mark.parametrize("served", [_document("")], indirect=True, ids=["picture"])
def test_the_page_can_be_pictured(served: str, tmp_path: Path) -> None:
    picture = Path(os.environ.get("PERAGO_PICTURE", tmp_path / "page.png")).absolute()
    size = "--window-size=1500,1150"
    _chromium(tmp_path / "profile", size, f"--screenshot={picture}", served)
    assert picture.stat().st_size > 10_000
