"""What may stand instead of one node of a syntax tree: swaps, negations, constants, omissions.

Each function knows one family of nodes and yields nothing for the others.
"""

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

TEXT = "text"
"""The kind of a change that touches nothing but a string."""

SHOWN_CHARACTERS_MAX = 90

COMPARISONS: dict[type[ast.cmpop], Sequence[type[ast.cmpop]]] = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

_Element = TypeVar("_Element")
_Node = TypeVar("_Node", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class Change:
    """What stands instead of a node, and what to call that."""

    kind: str
    node: ast.AST


def changes_of(node: ast.AST) -> Iterator[Change]:
    """Yield every change of one node."""
    for family in (_operators, _booleans, _constants, _conditions, _statements, _collections):
        yield from family(node)


def show(node: ast.AST) -> str:
    """One short line of source."""
    try:
        text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node)))
    except (AttributeError, ValueError):
        text = type(node).__name__
    line = " ".join(text.split())
    if len(line) <= SHOWN_CHARACTERS_MAX:
        return line
    return f"{line[: SHOWN_CHARACTERS_MAX - 3]}..."


def is_unreachable(case: ast.match_case) -> bool:
    """Whether a case only tells the type checkers that nothing is left."""
    return show(case.body[0]).startswith("assert_never(")


def _operators(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[asked]):
            for swapped in COMPARISONS[type(asked)]:
                yield Change("comparison", _with(node, ops=[swapped()]))
        case ast.BinOp(op=used) if type(used) in OPERATORS:
            yield Change("arithmetic", _with(node, op=OPERATORS[type(used)]()))
        case _:
            return


def _booleans(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.BoolOp(joined_by, values):
            other = ast.Or() if isinstance(joined_by, ast.And) else ast.And()
            yield Change("and/or", _with(node, op=other))
            for rest in _each_without_one(values):
                short = rest[0] if len(rest) == 1 else _with(node, values=rest)
                yield Change("operand dropped", short)
        case ast.UnaryOp(ast.Not(), operand):
            yield Change("not dropped", operand)
        case _:
            return


def _constants(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.JoinedStr(values):
            yield Change(TEXT, _with(node, values=[*values, ast.Constant("~")]))
        case ast.Constant(bool(value)):
            yield Change("constant", ast.Constant(not value))
        case ast.Constant(int(value) | float(value)):
            yield Change("constant", ast.Constant(value + 1))
            yield Change("constant", ast.Constant(value - 1))
        case ast.Constant(str(value)):
            yield Change(TEXT, ast.Constant(value + "~"))
        case ast.Constant(bytes(value)):
            yield Change(TEXT, ast.Constant(value + b"~"))
        case _:
            return


def _conditions(node: ast.AST) -> Iterator[Change]:
    """Negate what is asked; a comparison is swapped where it stands."""
    match node:
        case ast.comprehension(ifs=asked):
            for n, one in enumerate(asked):
                negated = ast.UnaryOp(ast.Not(), one)
                ifs = [*asked[:n], negated, *asked[n + 1 :]]
                yield Change("condition negated", _with(node, ifs=ifs))
            for rest in _each_without_one(asked):
                yield Change("condition dropped", _with(node, ifs=rest))
        case ast.If(test) | ast.IfExp(test) | ast.While(test):
            if not isinstance(test, ast.Compare):
                negated = ast.UnaryOp(ast.Not(), test)
                yield Change("condition negated", _with(node, test=negated))
        case _:
            return


def _statements(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Return(value) if value is not None and show(value) != "None":
            yield Change("return dropped", ast.Return(ast.Constant(None)))
        case ast.Raise() | ast.AugAssign() | ast.Expr(ast.Call()):
            yield Change("statement dropped", ast.Pass())
        case ast.Match(_, cases) if len(cases) > 1:
            for case, rest in zip(cases, _each_without_one(cases), strict=True):
                if not is_unreachable(case):
                    yield Change(f"case {show(case.pattern)} dropped", _with(node, cases=rest))
        case _:
            return


def _collections(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Set(elements) | ast.List(elements, ast.Load()) | ast.Tuple(elements, ast.Load()):
            if len(elements) > 1:
                for rest in _each_without_one(elements):
                    yield Change("element dropped", _with(node, elts=rest))
        case ast.Dict(keys, values):
            for less, fewer in zip(_each_without_one(keys), _each_without_one(values), strict=True):
                yield Change("entry dropped", _with(node, keys=less, values=fewer))
        case _:
            return


def _each_without_one(elements: Sequence[_Element]) -> Iterator[list[_Element]]:
    for n in range(len(elements)):
        yield [*elements[:n], *elements[n + 1 :]]


def _with(node: _Node, **parts: object) -> _Node:
    changed = copy.copy(node)
    for name, part in parts.items():
        setattr(changed, name, part)
    return changed
