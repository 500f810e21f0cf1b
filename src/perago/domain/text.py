"""Text that people read: without secrets, and without characters that a terminal obeys.

`Secrets` takes keys, tokens and passwords out of text, in each form that our writers give them.
`plain` shows what is not printable as its escape: a file name must not write to a terminal.
"""

import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self, cast
from urllib.parse import quote

MASK = "***"
# A shorter secret would take single letters and digits out of every line. It stays visible.
SECRET_CHARACTERS_MIN = 4


@dataclass(frozen=True, slots=True)
class Secrets:
    """What takes known secrets out of text; the forms are the longest first.

    Text is masked before it is encoded, because an encoder writes a quote or a backslash of a
    secret in another way, and then nothing is found. Text that was encoded earlier (a JSON line
    inside a message, a Python repr, a URL) has those other ways already: they are looked for too.
    """

    forms: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, known: Iterable[str]) -> Self:
        """Those secrets, but not what is too short to be one."""
        forms: set[str] = set()
        for each in known:
            if len(each) >= SECRET_CHARACTERS_MIN:
                forms |= {each, repr(each)[1:-1], quote(each, safe="")}
                forms |= {json.dumps(each, ensure_ascii=kept)[1:-1] for kept in (True, False)}
        # A secret may begin like a longer one, whose rest would stay.
        return cls(tuple(sorted(forms, key=lambda form: (-len(form), form))))

    def masked(self, text: str) -> str:
        """The text without secrets."""
        for form in self.forms:
            if form in text:
                text = text.replace(form, MASK)
        return text

    def masked_value(self, value: object) -> object:
        """The same value with every text in it masked, and an object whose repr has one as text."""
        if not self.forms:
            return value
        if isinstance(value, str):
            return self.masked(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            items = cast("Mapping[object, object]", value).items()
            return {self.masked(str(key)): self.masked_value(each) for key, each in items}
        if isinstance(value, list | tuple | set | frozenset):
            return [self.masked_value(each) for each in cast("Iterable[object]", value)]
        shown = repr(value)
        masked = self.masked(shown)
        return value if masked == shown else masked


NO_SECRETS = Secrets()


def plain(text: object) -> str:
    """One line; what is not printable is written as its escape in Python."""
    written = str(text)
    if written.isprintable():  # nearly every text; then no character is looked at
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


_STEP = 1024


def in_units(size: int) -> str:
    """A number of bytes as people read it, such as `1.5 MiB`."""
    amount, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while amount >= _STEP and len(units) > 1:
        amount /= _STEP
        units.pop(0)
    return f"{size} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"
