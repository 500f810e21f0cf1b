"""Which version of the task modules runs, for the commits that they make.

Asks git where the modules lie in its working tree. Whatever git cannot tell stays untold: a wrong
version in a commit would be worse than none.
"""

import inspect
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from perago.app.authoring.task_definition import TaskDefinition

# A worker that starts waits for it. In a tree of 100,000 files `git describe` takes seconds.
GIT_SECONDS_MAX = 10.0
# A file that git does not track, such as an installed package in a virtual environment inside the
# working tree, is not what the commit holds.
_IS_TRACKED = ("ls-files", "--error-unmatch", "--")
# The whole commit id, and `-dirty` where tracked files differ from it. No tags, because they move.
_DESCRIBE = ("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")
# A repository may name programs that git starts. None of them is needed to read a commit id.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
# Those that remain, such as filters, run with what git itself needs, and without the worker's keys.
_VARIABLES = ("PATH", "HOME", "LANG")


def code_version_of(tasks: Iterable[TaskDefinition]) -> str | None:
    """The git commit of the first task module that git knows; None where it knows none."""
    for task in tasks:
        name = inspect.getsourcefile(inspect.unwrap(task.fn))
        if name is None:
            continue
        file = Path(name).absolute()
        if _ask(file.parent, *_IS_TRACKED, file.name) is not None:
            return _ask(file.parent, *_DESCRIBE) or None
    return None


def _ask(folder: Path, *words: str) -> str | None:
    """What git answers; None where there is no git, no working tree or no answer."""
    try:
        done = subprocess.run(  # noqa: S603 - words of this file and names of files, and no shell
            [*_GIT, *words],
            cwd=folder,
            env={"GIT_OPTIONAL_LOCKS": "0"}
            | {each: os.environ.get(each, "") for each in _VARIABLES},
            capture_output=True,
            check=True,
            text=True,
            timeout=GIT_SECONDS_MAX,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
