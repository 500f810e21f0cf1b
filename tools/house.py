"""Measure the layout of `src/perago` beside two code bases to learn from, and count retired words.

`make house` prints it. The retired words are read from docs/glossary.md, and test_tidy uses the
same reading, so that a word is listed in one place.
"""

import ast
import io
import re
import statistics
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "perago"
GLOSSARY = ROOT / "docs" / "glossary.md"
# The design says what the layout must make true; trio and pyiceberg were measured once, without
# their tests (60d0c2f and 3073098, August 2026), and stay as they were.
FILES_MAX, LINES_MAX, IMPORT_SHARE_MAX = 240, 31_000, 0.07
# What is reached of the three (docs/adr/0013-lines-that-are-reached.md): the gate holds
# these, and they may only fall. Comments and blank lines do not count, because a reason that is
# written down is no reason to fail. A new capability raises them by what it needs, and its commit
# says which.
FILES_REACHED, CODE_LINES_REACHED, IMPORT_SHARE_REACHED = 234, 42_900, 0.07
TRIO = ("78", "25000", "170", "8 / 32 / 348", "6.9 %", "14.4 %", "2.19", "")
PYICEBERG = ("82", "39000", "211", "3 / 21 / 149", "5.4 %", "5.3 %", "0.53", "")
BY_HAND = (
    "context objects, ways to send a request, lifecycles, fault models, files for a fourth policy"
    " (files and hops of one publication: tests/unit/app/test_way_of_an_attempt.py)"
)
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


@dataclass(frozen=True, slots=True)
class RetiredWord:
    """A word that no name may have, in all its forms, and the names that may."""

    forms: tuple[str, ...]
    stays: tuple[str, ...]

    def is_in(self, name: str) -> bool:
        """Whether a name has the word and is not one of those that keep it."""
        if any(fnmatchcase(name, pattern) for pattern in self.stays):
            return False
        return any(part.lower() in self.forms for part in _PART.findall(name))


@dataclass(slots=True)
class House:
    """What was counted in a folder of Python files."""

    file_lines: list[int] = field(default_factory=list[int])
    function_lines: list[int] = field(default_factory=list[int])
    import_lines: int = 0
    code_lines: int = 0
    comment_lines: int = 0
    prose_words: int = 0
    reasons: int = 0

    @property
    def lines(self) -> int:
        """All lines of all files."""
        return sum(self.file_lines)

    def add(self, text: str) -> None:
        """Count one file."""
        tree = ast.parse(text)
        comments = _comments(text)
        lines_here = text.splitlines()
        self.file_lines.append(len(lines_here))
        self.code_lines += sum(
            1 for line in lines_here if line.strip() and not line.strip().startswith("#")
        )
        self.comment_lines += sum(1 for _, alone in comments if alone)
        prose = " ".join([each for each, _ in comments] + list(_docstrings(tree))).lower()
        self.prose_words += len(prose.split())
        self.reasons += len(re.findall(r"\bbecause\b", prose))
        for node in ast.walk(tree):
            lines = _line_count(node)
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.import_lines += lines
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.function_lines.append(lines)


def python_files(folder: Path) -> list[Path]:
    """Every Python file of a folder, in order."""
    return sorted(folder.rglob("*.py"))


def measured(folder: Path) -> House:
    """Count a folder."""
    house = House()
    for path in python_files(folder):
        house.add(path.read_text(encoding="utf-8"))
    return house


def retired_words(glossary: str) -> list[RetiredWord]:
    """Read the table under "Retired words": forms in the first column, exceptions in the last."""
    section = glossary.partition("## Retired words")[2]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return [
        RetiredWord(
            tuple(re.findall(r"`([^`]+)`", row[0])), tuple(re.findall(r"`([^`]+)`", row[-1]))
        )
        for row in rows
    ]


def defined_names(tree: ast.AST) -> Iterator[str]:
    """Every name that a file gives; names that it only uses belong to their own file."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                yield name
            case ast.arg(name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.ExceptHandler(name=str(name)) | ast.alias(asname=str(name)):
                yield name
            case _:
                pass


def retired_names(folder: Path, words: Sequence[RetiredWord]) -> dict[str, Counter[str]]:
    """The names with a retired word, by the word's first form, and how often each is given."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path in python_files(folder):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        own = [path.parent.name] if path.stem == "__init__" else [path.stem]
        for name in [*own, *defined_names(tree)]:
            for word in words:
                if word.is_in(name):
                    found[word.forms[0]][name] += 1
    return found


def table(house: House, retired: dict[str, Counter[str]]) -> str:
    """The measured rows of the design's table, ours beside the others."""
    spread = _spread(house.function_lines)
    share = house.import_lines / house.lines
    count = sum(names.total() for names in retired.values())
    rows = [
        ("source files", str(len(house.file_lines)), f"<= {FILES_MAX}"),
        ("lines", str(house.lines), f"<= {LINES_MAX}"),
        ("median file", f"{statistics.median(house.file_lines):.0f}", "130 to 200"),
        ("function median / p90 / max", spread, ""),
        ("import lines", f"{share:.1%}".replace("%", " %"), f"<= {100 * IMPORT_SHARE_MAX:.0f} %"),
        ("comment lines", f"{house.comment_lines / house.lines:.1%}".replace("%", " %"), ""),
        ("because per 1000 words", f"{1000 * house.reasons / house.prose_words:.2f}", ""),
        ("retired words in names", str(count), "0"),
    ]
    lines = [f"{'':30}{'perago':>16}{'target':>12}{'trio':>16}{'pyiceberg':>16}"]
    for (name, ours, bound), trio, iceberg in zip(rows, TRIO, PYICEBERG, strict=True):
        lines.append(f"{name:30}{ours:>16}{bound:>12}{trio:>16}{iceberg:>16}")
    return "\n".join(lines)


def retired_table(retired: dict[str, Counter[str]]) -> str:
    """Each retired word with its names, the most frequent first."""
    lines = [f"{'word':12}{'names':>7}{'times':>7}  names"]
    for word, names in sorted(retired.items(), key=lambda each: -each[1].total()):
        shown = " ".join(f"{name}:{count}" for name, count in names.most_common())
        lines.append(f"{word:12}{len(names):>7}{names.total():>7}  {shown}")
    return "\n".join(lines)


def _comments(text: str) -> list[tuple[str, bool]]:
    """Every comment, and whether it has its line for itself."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [
        (each.string.lstrip("# "), each.line.lstrip().startswith("#"))
        for each in tokens
        if each.type == tokenize.COMMENT
    ]


def _docstrings(tree: ast.AST) -> Iterator[str]:
    """Docstrings, and the strings below constants and fields that explain them."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield node.value.value


def _line_count(node: ast.AST) -> int:
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", None)
    return 1 if last is None else int(last) - int(first) + 1


def _spread(values: Iterable[int]) -> str:
    ordered = sorted(values)
    p90 = ordered[int(0.9 * (len(ordered) - 1))]
    return f"{statistics.median(ordered):.0f} / {p90} / {ordered[-1]}"


def main() -> None:
    """Print what can be measured, and say what cannot."""
    words = retired_words(GLOSSARY.read_text(encoding="utf-8"))
    retired = retired_names(SOURCE, words)
    print(table(measured(SOURCE), retired))
    print(f"\ncounted by hand: {BY_HAND}\n")
    print(retired_table(retired))


if __name__ == "__main__":
    main()
