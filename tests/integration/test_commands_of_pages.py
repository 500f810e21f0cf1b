"""Every shell command of the pages that no other test takes is typed on real servers.

The reader of a page has servers, a repository and a worker; here they are those of the tests, and a
page's capital words (REPO, WORKFLOW) are what he would put there.
"""

import json
import re
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from tests.documented_commands import ALL_PAGES, bare, shell_lines, taker_of
from tests.integration.document_blocks import BLOCK
from tests.integration.page_reader import OTHER_TASK, Reader, settings_of
from tests.integration.test_kit_docs import PAGES

from perago_servers import ConductorServer, LakefsServer

ROOT = Path(__file__).parents[2]
KIT_PAGES = {f"docs/{name}" for name in PAGES}
SHOP = "docs/how-to/first-workflow.md"
SERVERS = "docs/how-to/set-up-servers.md"
APPROVAL = "docs/how-to/audit-approve-publish.md"
# The worker that the reader of a page has in another terminal: the page does not print its line.
WORKERS = {"docs/how-to/several-tasks-on-one-branch.md": "songs", APPROVAL: "prices"}
REPO, NEW = "perago-pages", "perago-pages-new"  # the second is what the page on servers creates
UP = {"perago start": "worker started", "perago watch": "http://127.0.0.1"}
LINES_MIN = 40  # fewer would mean that a page is not read any more
WAIT_SECONDS = 60


def run_by_the_kit(page: str) -> set[str]:
    """The lines of a page that test_kit_docs runs, block by block."""
    if page not in KIT_PAGES:
        return set()
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return {line.strip() for line in "\n".join(blocks).replace("\\\n", " ").splitlines()}


def filled(line: str, names: Mapping[str, str]) -> str:
    """The line with what a reader puts in the place of capital words."""
    for name, value in names.items():
        line = re.sub(rf"(?<![\w$]){name}(?!\w)", value, line)
    return line.replace("s3://BUCKET", "local://")


def typed_by_page() -> dict[str, list[str]]:
    """What this test types of each page; what several pages say is typed once."""
    typed: dict[str, list[str]] = {}
    for page in ALL_PAGES:
        own = {"REPOSITORY": "perago-readme", "BRANCH": "main", "MODULE": "shop"}
        own["REPO"] = NEW if page == SERVERS else REPO
        if page != APPROVAL:  # its workflow is its own
            own["WORKFLOW_ID"] = "WORKFLOW"
        elsewhere = run_by_the_kit(page)
        for line in shell_lines(ROOT / page):
            if taker_of(page, line) is None and line not in elsewhere:
                typed.setdefault(page, []).append(filled(bare(line), own))
    known: set[str] = set()
    for page, lines in typed.items():
        typed[page] = [line for line in dict.fromkeys(lines) if line not in known]
        known.update(lines)
    return {page: lines for page, lines in typed.items() if lines}


TYPED = typed_by_page()


def test_the_pages_have_lines() -> None:
    assert sum(map(len, TYPED.values())) > LINES_MIN


@pytest.fixture(scope="module")
def reader(
    tmp_path_factory: pytest.TempPathFactory,
    lakefs_server: LakefsServer,
    conductor_workers_server: ConductorServer,
) -> Reader:
    """A reader with the settings of servers that run, in a directory with task modules."""
    home = tmp_path_factory.mktemp("reader")
    for _, options, text in BLOCK.findall((ROOT / SHOP).read_text(encoding="utf-8")):
        if "file=shop.py" in options:
            (home / "shop.py").write_text(text, encoding="utf-8")
    for name in ("long_tasks", "short_tasks"):
        (home / f"{name}.py").write_text(OTHER_TASK.format(name=name), encoding="utf-8")
    readme = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    (own_task,) = [text for language, _, text in readme if language == "python"]
    (home / "my_tasks.py").write_text(own_task, encoding="utf-8")  # as the page says
    for page in sorted(KIT_PAGES & set(TYPED)):
        text = (ROOT / page).read_text(encoding="utf-8")
        folder = home / Path(page).stem
        folder.mkdir()
        for block in re.findall(
            r"^```python\n(# \w+\.py\n.*?)^```$", text, re.MULTILINE | re.DOTALL
        ):
            (folder / block.split("\n", 1)[0].removeprefix("# ")).write_text(block)
    settings = settings_of(lakefs_server, conductor_workers_server)
    # The kit's tests on real servers wait for leases: all at once they take as long as the longest.
    return Reader(home, {**settings, "PYTEST_ADDOPTS": "-n 5"})


@pytest.fixture(scope="module")
def names(reader: Reader) -> dict[str, str]:
    """A workflow that a worker of `shop` has completed in a repository with the fence."""
    reader.type(f"lakectl repo create lakefs://{REPO} local://{REPO}")
    reader.type("printf 'day,amount\\nmonday,3\\n' > events.csv")
    upload = f"lakectl fs upload lakefs://{REPO}/main/sales/events.csv --source events.csv"
    reader.type(f"{upload} --no-progress && lakectl commit lakefs://{REPO}/main -m first")
    reader.type(f"perago fence install {REPO} main")
    reader.type("perago register shop long_tasks short_tasks my_tasks")
    reader.type("perago workflow new shop --name shop --register")
    with reader.running("perago start shop"):
        params = "--params shop_total.rows=1"
        typed = f"perago submit shop --repo {REPO} --branch main {params} --wait 2> steps"
        workflow = reader.type(typed).split()[0]
    return {"WORKFLOW": workflow}


@pytest.mark.lakefs
@pytest.mark.conductor
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", TYPED)
def test_every_command_of_a_page_works_as_it_is_printed(
    reader: Reader, names: dict[str, str], page: str
) -> None:
    folder = f"cd {Path(page).stem} && " if page in KIT_PAGES else ""
    given = dict(names)
    with ExitStack() as terminals:
        if page == APPROVAL:
            reader.type("lakectl repo create lakefs://shop local://shop")
            reader.type("perago fence install shop main")
        for line in (filled(each, given) for each in TYPED[page]):
            if page in WORKERS and "perago submit" in line:
                terminals.enter_context(reader.running(f"{folder}perago start {WORKERS[page]}"))
            up = next((until for begins, until in UP.items() if begins in line), None)
            if up is not None:
                terminals.enter_context(reader.running(line, up))
                continue
            printed = reader.type(folder + line)
            if page == APPROVAL and "perago submit" in line:
                given |= waiting_for_approval(reader, printed)
        if page == APPROVAL:
            until_task(reader, given["WORKFLOW_ID"], "perago_finish", "COMPLETED")


def waiting_for_approval(reader: Reader, printed: str) -> dict[str, str]:
    """What only the workflow that was just submitted knows, in the words of its page."""
    (workflow,) = set(re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", printed))
    row = until_task(reader, workflow, "approve", "IN_PROGRESS")
    return {"WORKFLOW_ID": workflow, "perago-run-KEY": str(row["inputData"]["branch"])}


def until_task(reader: Reader, workflow: str, reference: str, status: str) -> dict[str, Any]:
    """The row of a task when Conductor gives it that status."""
    asked = f'sleep 0.2; curl -sS --fail "$PERAGO_CONDUCTOR/workflow/{workflow}"'
    deadline = monotonic() + WAIT_SECONDS
    while True:
        found = json.loads(reader.type(asked))
        for row in found["tasks"]:
            if (row["referenceTaskName"], row["status"]) == (reference, status):
                return dict(row)
        assert monotonic() < deadline, found
