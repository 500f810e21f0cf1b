"""A task module that looks for keys wherever the code of a task could look, while it is imported.

Copied into the folder of a worker; a body may ask it later instead. The keys are given backwards,
so that the spy does not find what it carries itself. Answers in `found.json`, place by place.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel

from perago import task

BACKWARDS = "SPY_BACKWARDS"


class Nothing(BaseModel):
    """Neither parameters nor a result."""


@task(name="spy", owner_email="data@example.com")
def spy(params: Nothing) -> Nothing:
    """Never run; importing the module is enough."""
    return params


def keys_in(read: Callable[[], bytes]) -> list[str] | str:
    """The keys that a place holds, or how the operating system refused to show it."""
    try:
        data = read()[::-1]
    except OSError as error:
        return type(error).__name__
    return [each[::-1] for each in os.environ[BACKWARDS].split() if each.encode() in data]


def memory_of(process: int | str) -> bytes:
    """Everything a process can write to: its heap and its stacks."""
    found = b""
    with (
        Path(f"/proc/{process}/maps").open() as maps,
        Path(f"/proc/{process}/mem").open("rb") as mem,
    ):
        for line in maps:
            start, end = (int(part, 16) for part in line.split()[0].split("-"))
            if "rw" in line and "[v" not in line:
                mem.seek(start)
                found += mem.read(end - start)
    return found


def descriptors_of(process: int | str) -> list[str]:
    """What the open descriptors of a process are."""
    links = [each for each in Path(f"/proc/{process}/fd").iterdir() if each.exists()]
    return [str(each.readlink()) for each in links]


def files_below(*roots: str) -> bytes:
    """The bytes of every file the worker has written."""
    files = (path for root in roots for path in Path(root).rglob("*") if path.is_file())
    return b"".join(path.read_bytes() for path in files)


def key_files() -> list[Path]:
    """The files that keep keys for the worker."""
    return [Path(each) for each in os.environ["SPY_FILES"].split()]


def capabilities() -> str:
    """What this process may do besides what its user may, and whether it can get more."""
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    wanted = ("CapEff:", "CapPrm:", "CapAmb:", "NoNewPrivs:")
    return " ".join(each.split()[1] for each in status if each.startswith(wanted))


def look_everywhere() -> dict[str, object]:
    """Every place with what it holds."""
    parent = os.getppid()
    written = os.environ["PERAGO_WORKSPACE_ROOT"], os.environ["PERAGO_LOG_ROOT"]
    return {
        # First: every later look leaves in this memory what it turned round.
        "own memory": keys_in(lambda: memory_of("self")),
        "user": os.getuid(),
        "own environment": keys_in(lambda: repr(dict(os.environ)).encode()),
        "own arguments": keys_in(Path("/proc/self/cmdline").read_bytes),
        "inherited descriptors": sorted(each.partition(":")[0] for each in descriptors_of("self")),
        "environment of the parent": keys_in(Path(f"/proc/{parent}/environ").read_bytes),
        "arguments of the parent": keys_in(Path(f"/proc/{parent}/cmdline").read_bytes),
        "memory of the parent": keys_in(lambda: memory_of(parent)),
        "descriptors of the parent": keys_in(lambda: repr(descriptors_of(parent)).encode()),
        "files with keys": keys_in(lambda: b"".join(map(Path.read_bytes, key_files()))),
        "capabilities": capabilities(),
        "groups": os.getgroups(),
        "home": [os.environ["HOME"], os.access(os.environ["HOME"], os.W_OK)],
        "files of the worker": keys_in(lambda: files_below(*written)),
    }


if "PERAGO_EXECUTOR" in os.environ and "SPY_FILES" in os.environ:
    Path("found.json").write_text(json.dumps(look_everywhere()), encoding="utf-8")
