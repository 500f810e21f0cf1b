"""What became of one request: refused by lakeFS, lost after it left, or never sent.

Reads an answer's body, and trusts no conclusion that came from something else than lakeFS. What a
failure means to a caller is not decided here.
"""

import json
from dataclasses import dataclass
from typing import TypeAlias, cast

TEXT_MAX_CHARACTERS = 2000
# A caller concludes something from these, so only lakeFS itself may say them: a proxy's own 404
# during a deployment would otherwise read as "there is no such tag".
_CONCLUSIVE_STATUSES = frozenset({404, 409, 412})
_NO_SUCH_ENDPOINT = "invalid API endpoint"


@dataclass(frozen=True, slots=True)
class Refused:
    """lakeFS, or a proxy before it, answered with this status and said this."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The request left and no usable answer came.

    `broken` when its connection broke; `foreign` when something else than lakeFS answered.
    """

    text: str
    broken: bool = False
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """No connection was made: nothing can have happened."""

    text: str


Failure: TypeAlias = Refused | Lost | NotSent


def read_refusal(status: int, body: str) -> Refused | Lost:
    """Read the body of an answer whose status is not a success."""
    try:
        document: object = json.loads(body)
    except ValueError:
        document = None
    if isinstance(document, dict):
        message = str(cast("dict[str, object]", document).get("message", ""))
        if message != _NO_SUCH_ENDPOINT:
            return Refused(status, message)
    elif status not in _CONCLUSIVE_STATUSES:
        return Refused(status, shortened(body))
    text = f"status {status} from something that is no lakeFS API: {shortened(body)}"
    return Lost(text, foreign=True)


def shortened(text: str) -> str:
    """Text that fits into a message; a web page does not."""
    return text if len(text) <= TEXT_MAX_CHARACTERS else f"{text[:TEXT_MAX_CHARACTERS]}..."
