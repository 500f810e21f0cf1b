"""What the code of a task can find of its worker's keys: nothing, where the docs say so.

The spy runs inside an executor of the real `perago start`. No server is needed: executors import
their task modules while the parent still asks Conductor.
"""

import json
import os
import shutil
from pathlib import Path
from subprocess import CompletedProcess

from tests.integration import key_spy
from tests.unprivileged import NOBODY, ReadablePython

from perago.app.worker.executor_user import HOME_DIRECTORY

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
}


def start_spied(
    python: ReadablePython, folder: Path, *, user: int | None, **variables: str
) -> CompletedProcess[str]:
    """Start a worker that has keys and whose task module looks for them."""
    shutil.copy(key_spy.__file__, folder / "spying.py")
    file = folder / "lakefs-secret"
    file.write_text(LAKEFS_SECRET, encoding="utf-8")
    file.chmod(0o600)
    if user is not None and os.geteuid() == 0:
        os.chown(file, user, user)
    given = {
        "CONDUCTOR_SERVER_URL": f"{NOWHERE}/api",
        # Conductor is asked for so long. An executor imports the spy meanwhile, which takes a
        # second or two; a start that ends sooner would end the executor before it has looked.
        "PERAGO_PATIENCE": "8s",
        "CONDUCTOR_AUTH_KEY": "key",
        "CONDUCTOR_AUTH_SECRET": CONDUCTOR_SECRET,
        "LAKECTL_SERVER_ENDPOINT_URL": NOWHERE,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "key",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY_FILE": str(file),
        "PERAGO_SPARK_CONF_spark_hadoop_fs_s3a_secret_key": LAKEFS_SECRET,
        "A_COPY_IN_A_URL": f"https://key:{LAKEFS_SECRET}@example",
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization={TOKEN}",
        "PERAGO_WORKSPACE_ROOT": str(folder / "workspaces"),
        "PERAGO_LOG_ROOT": str(folder / "logs"),
        key_spy.BACKWARDS: " ".join(each[::-1] for each in SECRETS),
        "SPY_FILES": file.name,  # below the folder that the worker starts in
        **variables,
    }
    command = ("-m", "perago", "start", "spying")
    return python.run(command, folder=folder, user=user, **given)


def found_by_spy(folder: Path, ended: CompletedProcess[str]) -> dict[str, object]:
    """What the spy found, of a worker that came as far as asking Conductor."""
    assert "failed to validate Conductor TaskDef" in ended.stderr, ended.stderr
    found: dict[str, object] = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return found


def test_a_body_of_the_same_user_cannot_read_the_keys_of_its_parent(
    python: ReadablePython, shared_folder: Path
) -> None:
    ended = start_spied(python, shared_folder, user=NOBODY)
    found = found_by_spy(shared_folder, ended)
    assert found["user"] != 0
    assert {place: found[place] for place in NOTHING_FOUND} == NOTHING_FOUND
    assert found["files of the worker"] == []


def test_a_body_of_the_same_user_can_read_files_with_keys_as_the_operations_page_says(
    python: ReadablePython, shared_folder: Path
) -> None:
    ended = start_spied(python, shared_folder, user=NOBODY)
    assert found_by_spy(shared_folder, ended)["files with keys"] == [LAKEFS_SECRET]


def test_an_executor_of_another_user_finds_no_key_in_any_file_either(
    python: ReadablePython, shared_folder: Path
) -> None:
    ended = start_spied(python, shared_folder, user=None, PERAGO_EXECUTOR_USER=str(NOBODY))
    if os.geteuid() != 0:
        assert "PRG-C014" in ended.stderr
        return
    found = found_by_spy(shared_folder, ended)
    assert {place: found[place] for place in NOTHING_FOUND} == NOTHING_FOUND
    assert found["files with keys"] == "PermissionError"
    assert found["files of the worker"] == []
    assert found["user"] == NOBODY
    assert found["groups"] == []
    assert found["home"] == [str(shared_folder / "workspaces" / HOME_DIRECTORY), True]
    assert found["capabilities"] == "0000000000000000 0000000000000000 0000000000000000 1"


def test_a_worker_that_may_not_switch_users_says_so_before_it_asks_anything(
    python: ReadablePython, shared_folder: Path
) -> None:
    ended = start_spied(python, shared_folder, user=NOBODY, PERAGO_EXECUTOR_USER="1")
    assert ended.returncode == 1
    assert "error: PERAGO_EXECUTOR_USER: the worker may not switch users" in ended.stderr
    assert "it lacks CAP_CHOWN, " in ended.stderr
    assert "PRG-C014" in ended.stderr
    assert not (shared_folder / "found.json").exists()
