"""Text from elsewhere as a terminal may show it: nothing in it moves the cursor or fakes a line.

Names of objects, output of task code and reasons of services may hold anything.
"""

import unicodedata


def plain(text: object) -> str:
    """One line; what is not printable is written as its escape in Python."""
    written = str(text)
    if written.isprintable():
        return written
    return "".join(map(_shown, written))


def plain_lines(text: object) -> str:
    """The same with its lines kept, for text whose lines are ours."""
    return "\n".join(map(plain, str(text).split("\n")))


def _shown(character: str) -> str:
    # Python calls every space but the common one unprintable, but French text is full of them, and
    # a tab stands between the columns of a table.
    if character.isprintable() or character == "\t" or unicodedata.category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode("ascii")
