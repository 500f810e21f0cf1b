"""The part of the reference about what a body may ask of its attempt, made from the code."""

import inspect
from collections.abc import Iterator
from dataclasses import fields

from perago.app.authoring.current_attempt import CancelSignal, CurrentAttempt, current_attempt

_ANSWERS = (
    (CancelSignal, "cancel.", ("is_set", "wait")),
    (CurrentAttempt, "", ("progress", "logger", "checkpoint", "changes")),
)


def attempt_section() -> str:
    """Return the section: what the function returns, and each part of it."""
    about = inspect.getdoc(current_attempt) or ""
    return f"""## perago.current_attempt()

{about}
"""


def attempt_rows() -> Iterator[tuple[str, str]]:
    """Each part with its meaning; facts with what the stand-in says."""
    stand_in = CurrentAttempt()
    for each in fields(stand_in):
        value = getattr(stand_in, each.name)
        if isinstance(value, str | int):
            yield f"`{each.name}`", f"`{value!r}` outside a worker"
    kept = "What an earlier attempt kept (`path`, `note`, `taken_at`), or None"
    yield "`resumed_from`", f"{kept}: [how to](../how-to/checkpoints.md)."
    for owner, prefix, names in _ANSWERS:
        for name in names:
            found = getattr(owner, name)
            call = "" if isinstance(found, property) else _arguments(found)
            yield f"`{prefix}{name}{call}`", _first_paragraph(found)


def _first_paragraph(found: object) -> str:
    """A row of a table has one line."""
    return (inspect.getdoc(found) or "").split("\n\n")[0].replace("\n", " ")


def _arguments(function: object) -> str:
    assert callable(function), "methods only"
    given = list(inspect.signature(function).parameters.values())[1:]
    # Python 3.13 calls a Path by the module that defines it.
    return f"({', '.join(map(str, given))})".replace("pathlib._local.", "pathlib.")
