"""The story of one schedule in words, short: what a process only read is one line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

LINES_MAX = 40
WIDTH_MAX = 150

# What the calls mean, for a reader who knows the protocol but not the ports.
WORDS: Mapping[str, str] = {
    "branches.create": "creates a branch",
    "branches.delete": "deletes the branch",
    "branches.head": "reads a branch's head",
    "branches.merge": "merges into the target",
    "branches.relocate": "relocates the target",
    "commits.commit": "commits on its staging branch",
    "commits.diff_page": "compares two commits",
    "commits.first_parents": "walks the target's history",
    "commits.read": "reads a commit",
    "objects.read": "reads the fence",
    "objects.upload": "uploads",
    "pipeline.materialise": "downloads",
    "pipeline.verify": "verifies the upload",
    "queue.complete": "sends its end",
    "queue.poll": "polls",
    "queue.read_attempt": "reads its row",
    "queue.read_workflow": "reads the workflow",
    "repositories.read": "reads the repository",
    "tags.create": "creates a tag",
    "tags.delete": "deletes a tag",
    "tags.list_page": "lists tags",
    "tags.read": "reads a tag",
    "branches.list_page": "lists branches",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened; a quiet one changed nothing and went as it should."""

    seconds: float
    who: str
    what: str
    more: str = ""
    quiet: bool = False


def in_words(lines: Sequence[Line]) -> list[str]:
    """At most 40 lines; the middle of a longer story is left out, its end never."""
    told = [_told(group) for group in _grouped(lines)]
    if len(told) <= LINES_MAX:
        return told
    kept = LINES_MAX // 2
    left_out = f"          ... {len(told) - 2 * kept + 1} lines left out"
    return [*told[: kept - 1], left_out, *told[-kept:]]


def _grouped(lines: Sequence[Line]) -> list[list[Line]]:
    groups: list[list[Line]] = []
    for line in lines:
        last = groups[-1][-1] if groups else None
        if last is not None and line.quiet and last.quiet and last.who == line.who:
            groups[-1].append(line)
        else:
            groups.append([line])
    return groups


def _told(group: Sequence[Line]) -> str:
    first = group[0]
    what = ", ".join(WORDS.get(line.what, line.what) for line in group)
    text = f"{first.seconds:9.0f} {first.who:<9} {what}"
    if len(group) == 1 and first.more:
        text += f": {first.more}"
    return text if len(text) <= WIDTH_MAX else f"{text[: WIDTH_MAX - 3]}..."
