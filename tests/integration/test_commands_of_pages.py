"""Every shell command of the pages is typed on real servers, or it is said which test types it.

The reader of a page has servers, a repository and a worker; here they are those of the tests, and a
page's capital words (REPO, WORKFLOW) are what he would put there.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

import pytest
from tests.documented_commands import shell_lines
from tests.integration.document_blocks import BLOCK
from tests.integration.test_kit_docs import PAGES

from perago_servers import ConductorServer, LakefsServer
from perago_servers.cache import cache_root
from perago_servers.go_programs import lakefs_programs

ROOT = Path(__file__).parents[2]
STARTS_SECONDS, ENDS_SECONDS = 120, 60
KIT_PAGES = {f"docs/{name}" for name in PAGES}
ALL_PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
)
HANDS = "tests/integration/test_first_workflow.py"  # types all of it on servers of its own
# What is typed by another test, by what the line begins with.
ELSEWHERE = {
    "pip install": "tests/integration/test_wheel.py",
    "perago demo": "tests/unit/test_readme.py",
    "make demo": "tests/unit/test_readme.py",
    "make test": "tests/unit/test_makefile.py",
    "perago servers up": HANDS,
    ". ./.env": HANDS,
    "python -m perago_servers up": "tests/integration/test_servers.py",
    "set -a": "tests/integration/test_servers.py",
    "pytest -m": "tests/integration/test_servers.py",
    "pytest --perago-backend=real": "tests/integration/test_kit_on_both_backends.py",
    "mkdir -p -m 711": "tests/integration/test_worker_executor_user.py",
    "export PERAGO_WORKSPACE_ROOT=/var/lib": "tests/integration/test_worker_executor_user.py",
    "perago start team.tasks": "tests/integration/test_worker_executor_user.py",
    "python3 -m venv": "tests/integration/test_other_interpreter.py",
    "/opt/team/venv": "tests/integration/test_other_interpreter.py",
    "PERAGO_EXECUTOR_PYTHON=": "tests/integration/test_other_interpreter.py",
    # They are the reader's answer to one waiting workflow, whose ids only that workflow has.
    "perago submit prices": "tests/integration/test_runs.py",
    "perago diff perago-run-KEY": "tests/integration/test_runs.py",
    "curl -sS --fail -X POST": "tests/integration/test_runs.py",
}


def is_elsewhere(line: str) -> bool:
    return line.startswith(tuple(ELSEWHERE))


def lines_of(page: str) -> list[str]:
    """What this test types of a page: not what the kit's test runs in memory."""
    lines = dict.fromkeys(shell_lines(ROOT / page))
    if page in KIT_PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```sh on=servers\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        lines = {line: None for line in lines if line in "\n".join(blocks).replace("\\\n", " ")}
    return [line for line in lines if not is_elsewhere(line)]


def test_a_command_that_is_typed_elsewhere_is_on_a_page_and_the_test_is_there() -> None:
    every = [line for page in ALL_PAGES for line in shell_lines(ROOT / page)]
    unused = [start for start in ELSEWHERE if not any(line.startswith(start) for line in every)]
    assert unused == []
    assert all((ROOT / test).is_file() for test in ELSEWHERE.values())


class Reader:
    """Types lines into a shell, in one directory; ends what he started."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        scripts = Path(sys.executable).parent
        path = f"{scripts}{os.pathsep}{lakefs_programs()}{os.pathsep}{os.environ['PATH']}"
        xdg = {"XDG_CACHE_HOME": str(cache_root().parents[1])}
        self._home = home
        # BROWSER: what `--open` would start.
        base = {"PATH": path, "HOME": str(home), "BROWSER": "/bin/true"}
        self._environment = {**base, **xdg, **environment}
        self._started = 0

    def type(self, line: str) -> str:
        """Run a line to its end."""
        done = subprocess.run(
            ["bash", "-ec", line],  # noqa: S607 - the shell of the page
            cwd=self._home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}"
        return done.stdout

    @contextmanager
    def running(self, line: str, until: str = "worker started") -> Generator[None]:
        """A worker in a terminal of its own, from its start to the end of the block."""
        self._started += 1
        log = self._home / f"terminal-{self._started}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", line],  # noqa: S607 - the shell of the page
                cwd=self._home,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            deadline = monotonic() + STARTS_SECONDS
            while until not in log.read_text(encoding="utf-8"):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
                goes_on = process.returncode is None and monotonic() < deadline
                assert goes_on, f"{line}\n{log.read_text(encoding='utf-8')}"
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(ENDS_SECONDS)


SHOP = ROOT / "docs/how-to/first-workflow.md"
OTHER_TASK = """
from pydantic import BaseModel
from perago import task

class Nothing(BaseModel):
    pass

@task(name="{name}", owner_email="you@example.org")
def other(params: Nothing) -> Nothing:
    return params
"""


@pytest.fixture
def reader(
    tmp_path: Path, lakefs_server: LakefsServer, conductor_workers_server: ConductorServer
) -> Reader:
    """A reader with the settings of servers that run, in a directory with task modules."""
    for _, options, text in BLOCK.findall(SHOP.read_text(encoding="utf-8")):
        if "file=shop.py" in options:
            (tmp_path / "shop.py").write_text(text, encoding="utf-8")
    for name in ("long_tasks", "short_tasks"):
        (tmp_path / f"{name}.py").write_text(OTHER_TASK.format(name=name), encoding="utf-8")
    (own_task,) = [
        text
        for language, _, text in BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
        if language == "python"
    ]
    (tmp_path / "my_tasks.py").write_text(own_task, encoding="utf-8")  # as the page says
    for page in sorted(KIT_PAGES):
        for text in re.findall(
            r"^```python\n(# \w+\.py\n.*?)^```$",
            (ROOT / page).read_text(encoding="utf-8"),
            re.MULTILINE | re.DOTALL,
        ):
            if "on=servers" in (ROOT / page).read_text(encoding="utf-8"):
                folder = tmp_path / Path(page).stem
                folder.mkdir(exist_ok=True)
                (folder / text.split("\n", 1)[0].removeprefix("# ")).write_text(text)
    return Reader(
        tmp_path,
        {
            "PERAGO_LAKEFS": lakefs_server.endpoint,
            "PERAGO_CONDUCTOR": conductor_workers_server.api_url,
            "LAKECTL_SERVER_ENDPOINT_URL": lakefs_server.endpoint,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": lakefs_server.access_key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": lakefs_server.secret_access_key,
        },
    )


def filled(line: str, names: Mapping[str, str]) -> str:
    """The line with what a reader puts in the place of capital words."""
    for name, value in names.items():
        line = re.sub(rf"(?<![\w$]){name}(?!\w)", value, line)
    return re.sub(r" {2,}# .*$", "", line).replace("s3://BUCKET", "local://")


LINES_MIN = 40  # fewer would mean that a page is not read any more
NEW = "perago-pages-new"  # the repository that the page on servers creates


@pytest.mark.lakefs
@pytest.mark.conductor
@pytest.mark.timeout(600)
def test_every_command_works_as_it_is_printed(reader: Reader) -> None:
    repo = "perago-pages"
    reader.type(f"lakectl repo create lakefs://{repo} local://{repo}")
    reader.type("printf 'day,amount\\nmonday,3\\n' > events.csv")
    upload = f"lakectl fs upload lakefs://{repo}/main/sales/events.csv --source events.csv"
    reader.type(f"{upload} --no-progress && lakectl commit lakefs://{repo}/main -m first")
    reader.type("perago register shop long_tasks short_tasks my_tasks")
    reader.type("perago workflow new shop --name shop --register")
    names = {
        "REPOSITORY": "perago-readme",
        "REPO": repo,
        "BRANCH": "main",
        "MODULE": "shop",
    }
    with reader.running("perago start shop"):
        params = "--params shop_total.rows=1"
        typed = f"perago submit shop --repo {repo} --branch main {params} --wait 2> steps"
        workflow = reader.type(typed).split()[0]
        names |= {"WORKFLOW_ID": workflow, "WORKFLOW": workflow}
        reader.type(f"perago submit shop --repo {repo} --branch main {params} --wait")
    typed_lines: set[str] = set()  # what several pages say is typed once
    for page in ALL_PAGES:
        own = {**names, "REPO": NEW} if page.endswith("set-up-servers.md") else names
        for line in (filled(each, own) for each in lines_of(page)):
            if line not in typed_lines:
                type_line(reader, page, line)
            typed_lines.add(line)
    assert len(typed_lines) > LINES_MIN


def type_line(reader: Reader, page: str, line: str) -> None:
    """Some lines run until they are ended, and the pages with an example have its folder."""
    if re.search(r"\bperago start\b", line):
        with reader.running(line.partition("#")[0]):
            return
    if line.startswith("perago watch"):
        with reader.running(line, until="http://127.0.0.1"):
            return
    worker = None
    if page in KIT_PAGES:
        line = f"cd {Path(page).stem} && {line}"
    if "perago submit" in line:
        module = "songs" if "songs" in line else "my_tasks"
        folder = f"cd {Path(page).stem} && " if page in KIT_PAGES else ""
        worker = f"{folder}perago start {module}"
    if worker is None:
        reader.type(line)
    else:
        with reader.running(worker):
            reader.type(line)
