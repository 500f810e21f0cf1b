"""One run in a process of its own, so that changed modules are loaded anew, told while it goes on.

The process prints one JSON document a line: what it knows so far, and in the end everything.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from perago.app.command_line.reporting import note_lines, say
from perago.testing.json_values import as_object

SCHEMA = "perago.dev/1"
Seen = Callable[[Mapping[str, object]], None]


def tell(document: Mapping[str, object], *, complete: bool) -> None:
    """What that process does: print a document as a line."""
    say(json.dumps({"schema": SCHEMA, **document, "complete": complete}))


def run_aside(arguments: Sequence[str], seen: Seen) -> None:
    """Run `perago ARGUMENTS` and hand on each document; what went wrong is one as well."""
    command = [sys.executable, "-m", "perago", *arguments]
    complete = False
    other: list[str] = []
    with (
        tempfile.TemporaryFile("w+") as complaints,
        subprocess.Popen(  # noqa: S603 - ours
            command, stdout=subprocess.PIPE, stderr=complaints, text=True
        ) as process,
    ):
        assert process.stdout is not None, "it was asked for"
        for line in process.stdout:
            document = _document(line)
            complete = bool(document.get("complete")) or complete
            if document:
                seen(document)
            else:
                other.append(line)
        complaints.seek(0)
        said = complaints.read()
    if not complete:
        note_lines(said.rstrip())
        seen({"title": "perago dev", "error": said or "".join(other), "complete": True})


def _document(line: str) -> Mapping[str, object]:
    try:
        found = as_object(cast("object", json.loads(line)))
    except ValueError:
        return {}
    return found if "scenes" in found else {}
