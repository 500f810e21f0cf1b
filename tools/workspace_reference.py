"""The part of the reference about what a directory workspace can hold."""

from perago.adapters.workspace.changes import SYMLINK_REFUSAL
from perago.domain.paths import ACTIONS_PREFIX, ATTEMPT_MARKER, SEGMENT_BYTES_MAX, SEGMENTS_MAX

ON_DISK = (
    ("empty directory", "nothing: lakeFS has only objects; not published and not downloaded"),
    ("permissions, owner, times", "stay on the disk; a downloaded file is a new file"),
    (
        "symlink, to a file or a directory",
        f"the attempt fails: `{SYMLINK_REFUSAL.format(path='PATH')}`",
    ),
    ("pipe, socket, device", "skipped"),
    ("hard links", "each name is a file of its own"),
    (f"`{ATTEMPT_MARKER}`, at any depth", "never downloaded, published or deleted"),
    (
        f"`{ACTIONS_PREFIX}` of the repository",
        "never downloaded or deleted; a task that writes there fails",
    ),
    ("a file that is written to while it is uploaded", "the attempt fails"),
)
IN_LAKEFS = (
    ("empty object `x/`, a directory marker as Spark leaves it", "ignored, and stays"),
    ("`data2/x` beside the prefix `data`", "ignored, and stays"),
    (
        "content type and user metadata",
        "stay; a changed file keeps them, a renamed or copied one takes them along",
    ),
    (
        (
            "`//`, `.` and `..` as parts, a backslash, `c:` at the start,"
            f" a part longer than {SEGMENT_BYTES_MAX} bytes, more than {SEGMENTS_MAX} parts"
        ),
        (
            "the attempt fails before anything moves, and names the object; no task can publish"
            " such a name either"
        ),
    ),
    (
        (
            "`a` beside `a/b`; names that differ in case or Unicode form only, where the disk takes"
            " them for one"
        ),
        "the attempt fails before anything moves, and names both",
    ),
)


def workspace_section() -> str:
    """Return the section: what a task publishes, what it is given, and what is refused."""
    return f"""## What a workspace holds

The regular files below the prefix, and nothing else.

{_table("On the disk", ON_DISK)}

{_table("In lakeFS", IN_LAKEFS)}
"""


def _table(head: str, rows: tuple[tuple[str, str], ...]) -> str:
    pairs = ((head, "What happens"), ("---", "---"), *rows)
    return "\n".join(f"| {name} | {fate} |" for name, fate in pairs)
