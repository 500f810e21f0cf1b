"""The traceback of a body as its author needs it: from the author's first line on.

Frames above it are the same for every task. Says nothing of what the error means.
"""

import traceback
from pathlib import Path

_OURS = Path(__file__).parents[2]


def author_traceback(error: BaseException) -> str:
    """Return the text of a traceback; empty when no line of the author's took part."""
    frames = error.__traceback__
    while frames is not None and _OURS in Path(frames.tb_frame.f_code.co_filename).parents:
        frames = frames.tb_next
    if frames is None:
        return ""
    return "".join(traceback.format_exception(type(error), error, frames))
