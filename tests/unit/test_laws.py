"""Each law of a port is one test of its contract suite, by number and name, and the other way.

Reads texts only: the docstrings of `perago.ports` and the functions of `tests/contract`.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE_LINE = re.compile(
    r"Laws \(tests/contract/(test_\w+\*?\.py) (?:has|have) one test for each, by name\):"
)
LAW_LINE = re.compile(r"^ {4}(?P<law>[A-Z]\d+ \w+): ", re.MULTILINE)
# Repositories are only read.
WITH_EFFECTS = {
    "Branches",
    "Commits",
    "DirectoryUploads",
    "ObjectTransport",
    "Objects",
    "Tags",
    "TaskDefinitions",
    "TaskQueue",
    "Workflows",
    "WorkspacePipeline",
}
L0 = "lost_answer_is_unknown"
LAW_TEST = re.compile(r"test_(?P<number>[A-Z]\d+)_(?P<name>\w+)")


@dataclass(frozen=True, slots=True)
class Port:
    """A port's name and what its docstring says."""

    name: str
    docstring: str

    @property
    def suites(self) -> list[Path]:
        """The files that its laws name; a long suite is several."""
        named = SUITE_LINE.search(self.docstring)
        return [] if named is None else sorted((ROOT / "tests/contract").glob(named.group(1)))

    @property
    def laws(self) -> list[str]:
        """Its laws in order, as `B1 create_starts_at_source`."""
        return LAW_LINE.findall(self.docstring)


def ports_in(source: str) -> Iterator[Port]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and "Protocol" in map(ast.unparse, node.bases):
            yield Port(node.name, ast.get_docstring(node, clean=False) or "")


def suite_in(source: str) -> list[str]:
    """The tests of a module, those of the public suites it takes over included."""
    tests: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            tests += [node.name] if node.name.startswith("test_") else []
        elif isinstance(node, ast.ImportFrom) and [name.name for name in node.names] == ["*"]:
            path = ROOT / "src" / f"{str(node.module).replace('.', '/')}.py"
            tests += suite_in(path.read_text(encoding="utf-8"))
    return tests


def law_of(test: str) -> str | None:
    """The law a test's name quotes, or None when it quotes none."""
    quoted = LAW_TEST.fullmatch(test)
    return None if quoted is None else f"{quoted['number']} {quoted['name']}"


PORTS = [
    port
    for path in sorted((ROOT / "src/perago/ports").glob("*.py"))
    for port in ports_in(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.name)
def test_each_law_is_one_test_and_each_test_one_law(port: Port) -> None:
    assert port.suites, f"{port.name} names no contract suite that exists"
    tests = [test for suite in port.suites for test in suite_in(suite.read_text(encoding="utf-8"))]
    # Small ports of one server share a suite.
    laws = [law for each in PORTS if each.suites == port.suites for law in each.laws]
    assert sorted(map(str, map(law_of, tests))) == sorted(laws)


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.name)
def test_laws_are_numbered_without_gaps_under_one_letter(port: Port) -> None:
    numbers = [law.split()[0] for law in port.laws]
    assert numbers == [f"{numbers[0][0]}{number}" for number in range(1, len(numbers) + 1)]


@pytest.mark.parametrize("name", sorted(WITH_EFFECTS))
def test_every_port_with_effects_on_a_server_repeats_law_l0(name: str) -> None:
    (port,) = (port for port in PORTS if port.name == name)
    assert [law.split()[1] for law in port.laws].count(L0) == 1


def test_each_letter_belongs_to_one_port() -> None:
    letters = Counter(port.laws[0][0] for port in PORTS)
    assert [letter for letter, ports in letters.items() if ports > 1] == []


PORT_TEXT = '''
class Doors(Protocol):
    """Doors.

    Laws (tests/contract/test_doors.py has one test for each, by name):

    D1 open_door_is_passed: one may go through,
       both ways.
    D2 locked_door_stays: nobody passes.
    """
'''


def test_a_renamed_a_deleted_and_an_unlawful_test_are_seen() -> None:
    (port,) = ports_in(PORT_TEXT)
    assert port.laws == ["D1 open_door_is_passed", "D2 locked_door_stays"]
    lawful = "async def test_D1_open_door_is_passed(): ...\ndef test_D2_locked_door_stays(): ..."
    assert list(map(law_of, suite_in(lawful))) == port.laws
    for planted in (
        lawful.replace("locked", "shut"),
        lawful.replace("D2", "D3"),
        lawful.split("\n", maxsplit=1)[0],
        f"{lawful}\ndef test_hinges(): ...",
        f"{lawful}\ndef test_D1_open_door_is_passed(): ...",
    ):
        assert list(map(law_of, suite_in(planted))) != port.laws


def test_every_port_module_is_looked_at() -> None:
    assert {"Branches", "Tags", "TaskQueue", "Clock", "Lease"} <= {port.name for port in PORTS}
