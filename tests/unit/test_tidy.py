"""House rules that no other tool checks, read off the syntax trees of all our files.

Each test is one rule and lists every place that breaks it.
"""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from tools.house import GLOSSARY, SOURCE, retired_names, retired_words

from perago.domain.policy import Level, Policy

pytestmark = pytest.mark.scale  # every file of the repository is parsed

ROOT = Path(__file__).parents[2]
# A file holds what changes together. Past this length it holds two things.
LINES_MAX = 450
TEST_LINES_MAX = 450
FUNCTION_LINES_MAX = 50
SAYS_NOTHING = frozenset(
    {"utils", "helpers", "common", "manager", "service", "base", "core", "misc", "handler"}
)
# What a clone runs leaves the choice of index, proxy and mirror to the machine's own tools.
WITHOUT_ADDRESSES = (
    "constraints.txt",
    "pyproject.toml",
    "Makefile",
    ".ci/run",
    "tools/**/*.py",
    "src/perago_servers/*.py",
)
# Ours are loopback; Ivy's is the name of an XML vocabulary.
FOREIGN_ADDRESS = re.compile(
    r"https?://(?!127\.0\.0\.1|\{HOST\}|\{listen\}|ant\.apache\.org/ivy/maven)\S*"
)
MACHINE_PATH = re.compile("/(?:" + "root|home|work" + r")/\w")
POLICY_NAMED = re.compile(r"(?:Policy|Level|PolicySetting)\.(?!AUTO$)[A-Z_]+")
# `nobody` is also the name of a user of the machine, as in PERAGO_EXECUTOR_USER=nobody.
UNNAMED_ACTOR = re.compile(r"(?<!USER=)\b(?:no|some|any|every)body\b", re.IGNORECASE)
SKIPPING = frozenset({"skip", "skipif", "xfail", "importorskip"})


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file."""

    name: str
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]  # walked once, for all rules

    @property
    def stem(self) -> str:
        """Return the module's last name."""
        return Path(self.name).stem

    def is_under(self, *folders: str) -> bool:
        """Tell whether the file lies in one of the folders, named from the root."""
        return self.name.startswith(tuple(f"{folder}/" for folder in folders))

    def imports(self) -> Iterator[tuple[int, str]]:
        """Yield line and full dotted name of everything imported."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    yield node.lineno, f"{node.module}.{alias.name}"


def _parsed(name: str, text: str) -> Source:
    tree = ast.parse(text)
    return Source(name, text, tree, tuple(ast.walk(tree)))


@cache
def _sources() -> list[Source]:
    return [
        _parsed(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8"))
        for folder in ("src", "tests", "tools", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))
    ]


Rule = Callable[[Source], Iterator[str]]


def _long_files(source: Source) -> Iterator[str]:
    lines, most = source.text.count("\n"), LINES_MAX
    if source.is_under("tests"):
        most = TEST_LINES_MAX
    if lines > most:
        yield f"{lines} lines, at most {most}"


def _long_functions(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.lineno}: {node.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"


def _names_that_say_nothing(source: Source) -> Iterator[str]:
    for part in Path(source.name).with_suffix("").parts:
        if SAYS_NOTHING & set(part.split("_")):
            yield f"{part} says nothing"


def _silent_modules(source: Source) -> Iterator[str]:
    if source.text.strip() and not ast.get_docstring(source.tree):
        yield "no docstring says what the module decides or does"


def _open_adapters(source: Source) -> Iterator[str]:
    if not source.is_under("src/perago/adapters"):
        return
    ports = {
        name.rpartition(".")[2]
        for _, name in source.imports()
        if name.startswith("perago.ports.") and not f"{name}.".startswith("perago.ports.errors.")
    }
    for node in source.nodes:
        if not isinstance(node, ast.ClassDef):
            continue
        if ports & {ast.unparse(base).partition(".")[0] for base in node.bases}:
            decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
            if not decorators & {"final", "typing.final"}:
                yield f"{node.lineno}: {node.name} forgets methods silently without @final"


def _notes_to_self(source: Source) -> Iterator[str]:
    marks = "TO" + "DO|FIX" + "ME|X" + "XX"
    for found in re.finditer(rf"#.*\b(?:{marks})\b(?!\(#\d+\))", source.text):
        yield f"{found.group()} names no issue"


def _silenced_types(source: Source) -> Iterator[str]:
    if not source.is_under("src/perago/adapters"):
        for found in re.finditer("# type" + r":\s*ignore.*", source.text):
            yield found.group()


def _banners(source: Source) -> Iterator[str]:
    for found in re.finditer(r"^\s*#\s*[-=#*_]{4,}.*$", source.text, flags=re.MULTILINE):
        yield found.group().strip()


def _imported_fakes(source: Source) -> Iterator[str]:
    places = "src/perago/adapters", "src/perago/testing"
    allowed = source.is_under(*places) or source.stem == "container"
    if source.is_under("src/perago") and not allowed:
        for line, name in source.imports():
            if name.startswith("perago.adapters.memory"):
                yield f"{line}: {name}"


def _foreign_to_the_domain(source: Source) -> Iterator[str]:
    if source.is_under("src/perago/domain"):
        for line, name in source.imports():
            own = name.startswith("perago.domain.")
            if not own and name.partition(".")[0] not in sys.stdlib_module_names:
                yield f"{line}: {name}"


def _asked_policies(source: Source) -> Iterator[str]:
    """A comparison with a policy or a level by name, or a set of them; `auto` is none of them."""
    decides = source.is_under("src/perago/domain", "src/perago/testing")
    if decides or not source.is_under("src/perago"):
        return
    for node in source.nodes:
        if isinstance(node, ast.Compare | ast.MatchValue | ast.Set):
            for part in ast.walk(node):
                text = isinstance(part, ast.Constant) and part.value in set(Level) | set(Policy)
                if text or POLICY_NAMED.fullmatch(ast.unparse(part)):
                    yield f"{node.lineno}: {ast.unparse(node)}"


def _skipped_tests(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Attribute) and node.attr in SKIPPING:
            owner = ast.unparse(node.value)
            if owner in {"pytest", "pytest.mark", "unittest"}:
                yield f"{node.lineno}: {owner}.{node.attr}"


def _machine_paths(source: Source) -> Iterator[str]:
    for found in MACHINE_PATH.finditer(source.text):
        yield f"{found.group()} is a path of one machine"


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(_long_files, id="a file can be read at once"),
        pytest.param(_long_functions, id="a function fits a screen"),
        pytest.param(_names_that_say_nothing, id="a file's name says what is in it"),
        pytest.param(_silent_modules, id="a module says what it decides"),
        pytest.param(_open_adapters, id="an adapter is final"),
        pytest.param(_notes_to_self, id="a note to do something names its issue"),
        pytest.param(_silenced_types, id="types are silenced in adapters only"),
        pytest.param(_banners, id="no banner comments"),
        pytest.param(_imported_fakes, id="the application knows no fake"),
        pytest.param(_foreign_to_the_domain, id="the domain imports the standard library"),
        pytest.param(_asked_policies, id="no step asks which policy runs"),
        pytest.param(_skipped_tests, id="no test is skipped or expected to fail"),
        pytest.param(_machine_paths, id="no path of one machine"),
    ],
)
def test_house_rule(broken: Rule) -> None:
    places = [f"{source.name}: {place}" for source in _sources() for place in broken(source)]
    assert not places, "\n" + "\n".join(places)


def test_every_domain_module_has_its_unit_tests() -> None:
    modules = (ROOT / "src/perago/domain").glob("[!_]*.py")
    expected = {f"tests/unit/domain/test_{path.stem}.py" for path in modules}
    assert expected - {source.name for source in _sources()} == set()


def test_no_name_has_a_retired_word() -> None:
    """docs/glossary.md says what to write instead."""
    words = retired_words(GLOSSARY.read_text(encoding="utf-8"))
    assert retired_names(SOURCE, words) == {}


def test_sentences_name_who_acts() -> None:
    """House 3.7: the actor has a name, such as Conductor, gc, an operator or another worker."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.toml"), ROOT / "README.md"]
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in (*files, *(ROOT / "docs").rglob("*.md"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if UNNAMED_ACTOR.search(line)
    ]
    assert found == []


def test_what_a_clone_runs_names_no_address() -> None:
    for pattern in WITHOUT_ADDRESSES:
        for path in ROOT.glob(pattern):
            assert not FOREIGN_ADDRESS.findall(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    [
        (_long_files, "src/perago/domain/a.py", '"""A."""\n' * 451),
        (_long_functions, "src/perago/domain/a.py", "def f():\n" + "    f()\n" * 50),
        (_names_that_say_nothing, "src/perago/app/task_manager.py", ""),
        (_silent_modules, "src/perago/app/a.py", "x = 1\n"),
        (
            _open_adapters,
            "src/perago/adapters/a.py",
            "from perago.ports.lakefs import Tags\nclass MemoryTags(Tags): ...\n",
        ),
        pytest.param(
            _open_adapters,
            "src/perago/adapters/a.py",
            "from perago.ports import lakefs\nclass MemoryTags(lakefs.Tags): ...\n",
            id="of a port by its module",
        ),
        (_notes_to_self, "src/perago/app/a.py", "# TO" + "DO: later\n"),
        (_silenced_types, "tests/a.py", "x = 1  # type" + ": ignore[misc]\n"),
        (_banners, "tests/a.py", "# -----" + "- section\n"),
        (_imported_fakes, "src/perago/app/a.py", "import perago.adapters.memory.lakefs_ports\n"),
        (_foreign_to_the_domain, "src/perago/domain/a.py", "import attrs\n"),
        (_asked_policies, "src/perago/app/a.py", "x = level is Level.SETTLED\n"),
        pytest.param(
            _asked_policies, "src/perago/app/a.py", "x = level == 'settled'\n", id="by its text"
        ),
        pytest.param(
            _asked_policies,
            "src/perago/app/a.py",
            "X = frozenset({PolicySetting.LINEAGE})\n",
            id="a set of policies",
        ),
        pytest.param(
            _asked_policies,
            "src/perago/app/a.py",
            "match x:\n  case Policy.LINEAGE: ...\n",
            id="match",
        ),
        # The text of a file that breaks the rule. Nothing is skipped here: the rule has to see it.
        (_skipped_tests, "tests/a.py", "import pytest\npytest.skip('x')\n"),
        (_machine_paths, "tests/a.py", "x = '/home" + "/someone'\n"),
    ],
    ids=lambda value: getattr(value, "__name__", "-"),
)
def test_a_rule_sees_what_breaks_it(rule: Rule, name: str, text: str) -> None:
    assert list(rule(_parsed(name, text)))
