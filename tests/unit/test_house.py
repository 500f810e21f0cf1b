"""The tool that measures the layout counts what it says, and reads the glossary's table."""

import ast
from pathlib import Path

import pytest
from tools.house import (
    CODE_LINES_REACHED,
    FILES_REACHED,
    GLOSSARY,
    IMPORT_SHARE_REACHED,
    SOURCE,
    RetiredWord,
    defined_names,
    measured,
    retired_names,
    retired_words,
)

MODULE = '''"""Says it because."""

from pathlib import (
    Path,
)

# A reason: because.
X = 1  # beside code


def f() -> None:
    """Two lines."""
'''
WORLD = RetiredWord(("world", "worlds"), ("hello_world", "*_html"))


def test_lines_imports_comments_and_reasons_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(MODULE)
    house = measured(tmp_path)
    assert house.file_lines == [12]
    assert house.import_lines == 3
    assert house.comment_lines == 1  # the one beside code shares its line
    assert house.function_lines == [2]
    assert house.reasons == 2


@pytest.mark.parametrize(
    ("name", "is_in"),
    [
        ("world", True),
        ("_world", True),
        ("LakeFSWorlds", True),
        ("WORLD_OF", True),
        ("worldly", False),
        ("hello_world", False),
        ("scenes_html", False),
    ],
)
def test_a_word_is_found_as_a_part_of_a_name(name: str, *, is_in: bool) -> None:
    assert WORLD.is_in(name) == is_in


@pytest.mark.parametrize(
    "text",
    [
        "def world(): ...",
        "async def world(): ...",
        "class World: ...",
        "def f(world): ...",
        "world = 1",
        "x.world = 1",
        "world: int",
        "for world in (): ...",
        "with x as world: ...",
        "import x as world",
        "try: ...\nexcept ValueError as world: ...",
        "match x:\n  case [*world]: ...",
        "match x:\n  case 1 as world: ...",
        "(world := 1)",
        "[world for world in ()]",
    ],
)
def test_every_way_to_give_a_name_is_seen(text: str) -> None:
    assert "world" in {name.lower() for name in defined_names(ast.parse(text))}


def test_a_name_that_is_only_used_belongs_to_another_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print(world, x.world, f(world=1))")
    assert retired_names(tmp_path, [WORLD]) == {}


def test_the_name_of_a_file_or_folder_counts(tmp_path: Path) -> None:
    (tmp_path / "worlds").mkdir()
    (tmp_path / "worlds" / "__init__.py").touch()
    (tmp_path / "world.py").touch()
    assert retired_names(tmp_path, [WORLD]) == {"world": {"worlds": 1, "world": 1}}


def test_the_glossary_names_what_to_say_instead() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")
    words = retired_words(text)
    assert {"place", "world", "told", "sings"} <= {word.forms[0] for word in words}
    rows = [line for line in text.partition("## Retired")[2].splitlines() if line.startswith("| `")]
    assert len(rows) == len(words)
    for row in rows:
        used_for, instead = row.split("|")[2:4]
        assert used_for.strip()
        assert instead.strip()


def test_a_word_of_the_glossary_is_explained_once() -> None:
    rows = GLOSSARY.read_text(encoding="utf-8").partition("## Retired")[0].splitlines()
    words = [row.split("|")[1].strip() for row in rows if row.startswith("| ")]
    words = [word for word in words if word not in {"word", "---"}]
    assert len(words) == len(set(words)) > 30


def test_the_source_stays_within_its_bounds() -> None:
    house = measured(SOURCE)
    assert len(house.file_lines) <= FILES_REACHED
    assert house.code_lines <= CODE_LINES_REACHED
    assert house.import_lines / house.lines <= IMPORT_SHARE_REACHED
