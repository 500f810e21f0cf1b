"""What the code of a task can find of its worker's keys: nothing, where the docs say so.

The spy runs inside an executor of the real `perago start`. No server is needed: executors import
their task modules while the parent still asks Conductor.
"""

import json
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.integration import key_spy
from tests.unprivileged import NOBODY, ReadablePython, readable_python

LAKEFS_SECRET = "lakefs-secret-of-the-parent"
CONDUCTOR_SECRET = "conductor-secret-of-the-parent"
TOKEN = "collector-token-of-the-parent"
SECRETS = (LAKEFS_SECRET, CONDUCTOR_SECRET, TOKEN)
NOWHERE = "http://127.0.0.1:9"
NOTHING_FOUND: dict[str, object] = {
    "own environment": [],
    "own arguments": [],
    "own memory": [],
    # Standard input, the two streams that the parent reads, and the line to the parent.
    "inherited descriptors": ["/dev/null", "pipe", "pipe", "socket"],
    "environment of the parent": "PermissionError",
    "arguments of the parent": [],
    "memory of the parent": "PermissionError",
    "descriptors of the parent": "PermissionError",
    "files of the worker": [],
}


@pytest.fixture(scope="module")
def python() -> Generator[ReadablePython]:
    """An interpreter that users without rights can run."""
    with tempfile.TemporaryDirectory() as folder:
        yield readable_python(Path(folder))


@pytest.fixture
def shared_folder() -> Generator[Path]:
    """A folder for everybody; the folders of pytest are their owner's."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


def found_by_spy(
    python: ReadablePython, folder: Path, *, user: int | None, **variables: str
) -> dict[str, object]:
    """Start a worker that has keys and whose task module looks for them; what it found."""
    shutil.copy(key_spy.__file__, folder / "spying.py")
    given = {
        "CONDUCTOR_SERVER_URL": f"{NOWHERE}/api",
        "CONDUCTOR_AUTH_KEY": "key",
        "CONDUCTOR_AUTH_SECRET": CONDUCTOR_SECRET,
        "LAKECTL_SERVER_ENDPOINT_URL": NOWHERE,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "key",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": LAKEFS_SECRET,
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={TOKEN}",
        "PERAGO_WORKSPACE_ROOT": str(folder / "workspaces"),
        "PERAGO_LOG_ROOT": str(folder / "logs"),
        key_spy.BACKWARDS: " ".join(each[::-1] for each in SECRETS),
        **variables,
    }
    command = ("-m", "perago", "start", "spying")
    ended = python.run(command, folder=folder, user=user, **given)
    # It came as far as asking Conductor, so its executor has imported the module.
    assert "failed to validate Conductor TaskDef" in ended.stderr
    found: dict[str, object] = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return found


def test_a_body_of_the_same_user_cannot_read_the_keys_of_its_parent(
    python: ReadablePython, shared_folder: Path
) -> None:
    found = found_by_spy(python, shared_folder, user=NOBODY)
    assert found.pop("user") != 0
    assert found == NOTHING_FOUND
