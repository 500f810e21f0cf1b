"""What a mutant is: one node changed, and nothing that decides nothing."""

import ast

import pytest
from tools.mutate.changes import TEXT
from tools.mutate.mutants import mutants_of


def bodies(source: str) -> list[str]:
    return [ast.unparse(mutant.tree) for mutant in mutants_of(source)]


@pytest.mark.parametrize(
    ("source", "mutants"),
    [
        ("a == b", ["a != b"]),
        ("a < b", ["a <= b", "a >= b"]),
        ("a is None", ["a is not None"]),
        ("a in b", ["a not in b"]),
        ("a and b", ["a or b", "b", "a"]),
        ("a or b or c", ["a and b and c", "b or c", "a or c", "a or b"]),
        ("not a", ["a"]),
        ("a + b", ["a - b"]),
        ("x = True", ["x = False"]),
        ("x = 5", ["x = 6", "x = 4"]),
        ("x = 'a'", ["x = 'a~'"]),
        ("x = b'a'", ["x = b'a~'"]),
        ("x = f'{a} b'", ["x = f'{a} b~'"]),
        ("x = {a, b}", ["x = {b}", "x = {a}"]),
        ("x = {a: b}", ["x = {}"]),
        ("x = (a, b)", ["x = (b,)", "x = (a,)"]),
        ("x = a if b else c", ["x = a if not b else c"]),
        ("x = [a for a in b if c]", ["x = [a for a in b if not c]", "x = [a for a in b]"]),
        ("raise A", ["pass"]),
        ("a()", ["pass"]),
        ("def f():\n    return a", ["def f():\n    return None"]),
        ("match a:\n    case 1:\n        b\n    case _:\n        c",
         ["match a:\n    case _:\n        c", "match a:\n    case 1:\n        b",
          "match a:\n    case 2:\n        b\n    case _:\n        c",
          "match a:\n    case 0:\n        b\n    case _:\n        c"]),
        ("match a:\n    case B():\n        c\n    case _:\n        assert_never(a)",
         ["match a:\n    case _:\n        assert_never(a)"]),
        ("x: Literal['a'] = a", []),
        ("X = NewType('X', str)", []),
        ("X: TypeAlias = 'A' | B", []),
        ("@d(frozen=True)\nclass A:\n    'Doc.'", []),
        ("def f(a: 'A') -> 'B':\n    'Doc.'", []),
        ("def f():\n    return None", []),
    ],
)  # fmt: skip
def test_the_mutants_of_one_line(source: str, mutants: list[str]) -> None:
    assert bodies(source) == mutants


def test_a_change_of_text_is_told_apart_from_a_change_of_a_decision() -> None:
    kinds = [mutant.kind for mutant in mutants_of("x = a == 'b'")]
    assert kinds == ["comparison", TEXT]


def test_a_mutant_knows_its_place() -> None:
    (mutant,) = mutants_of("a\nb\nc == d")
    assert (mutant.line, mutant.before, mutant.after) == (3, "c == d", "c != d")
