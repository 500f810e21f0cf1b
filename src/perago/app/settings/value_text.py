"""Values of settings as the texts one would set them with.

The counterpart of `parsing`: what is written here reads back as the same value.
"""

import re
from datetime import timedelta

from perago.app.settings.parsing import SIZE_UNITS, parse_size
from perago.app.settings.variable import Variable

MASK = "**********"
_PASSWORD = re.compile(r"(?<=://)([^/@\s:]*):[^/@\s]*@")
_SECONDS = {"d": 86400, "h": 3600, "m": 60}


def value_text(variable: Variable, value: object) -> str:
    """Return the text of a value; secrets are masked, what is not set is empty."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case timedelta():
            return _duration_text(value)
        case int() if variable.parse is parse_size:
            return _size_text(value)
        case _:
            return _PASSWORD.sub(rf"\1:{MASK}@", MASK if variable.secret else str(value))


def _duration_text(value: timedelta) -> str:
    seconds = int(value.total_seconds())
    for unit, length in _SECONDS.items():
        if seconds and seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _size_text(value: int) -> str:
    for unit, length in reversed(SIZE_UNITS.items()):
        if value % length == 0:
            return f"{value // length}{unit}"
    return f"{value / SIZE_UNITS['KB']}KB"
