"""Which branches a protection pattern covers: the server's globs, read as it reads them.

Knows patterns only; the rules are read elsewhere.
"""

import re

_TOKENS = re.compile(r"\\.|\[!?[^\]]*\]|\*+|.", re.DOTALL)


def covers(pattern: str, branch: str) -> bool:
    """Whether a pattern with `*`, `?`, `[a-z]`, `[!a]` and `{a,b}` matches the whole name.

    A pattern that cannot be read covers nothing, here as on the server.
    """
    try:
        return re.fullmatch(_expression(pattern), branch, re.DOTALL) is not None
    except re.error:
        return False


def _expression(pattern: str) -> str:
    pieces: list[str] = []
    depth = 0
    for token in _TOKENS.findall(pattern):
        match token:
            case "{":
                depth += 1
                pieces.append("(?:")
            case "}" if depth:
                depth -= 1
                pieces.append(")")
            case "," if depth:
                pieces.append("|")
            case "?":
                pieces.append(".")
            case _ if token.startswith("*"):
                pieces.append(".*")
            case _ if token.startswith("[") and token.endswith("]"):
                pieces.append(token.replace("[!", "[^", 1))
            case _:
                pieces.append(re.escape(token.removeprefix("\\") or token))
    return "".join(pieces)
