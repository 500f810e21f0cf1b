"""The small wrong changes: one mutant is one module's syntax tree with one node changed.

Knows syntax only; what notices a mutant is not known here. Annotations, docstrings and decorators
are left alone: they decide nothing.
"""

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.mutate.changes import Change, changes_of, show


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed module."""

    kind: str
    line: int
    before: str
    after: str
    tree: ast.Module


def mutants_of(source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module."""
    tree = ast.parse(source)
    silent = {id(inner) for node in ast.walk(tree) for inner in _all(_silent_parts(node))}
    for place, node in enumerate(ast.walk(tree)):
        if id(node) in silent:
            continue
        for change in changes_of(node):
            line = getattr(node, "lineno", 0)
            yield Mutant(
                change.kind, line, show(node), show(change.node), _put(tree, place, change)
            )


def _put(tree: ast.Module, place: int, change: Change) -> ast.Module:
    """Copy the module with the node at that place of the walk replaced."""
    mutated = copy.deepcopy(tree)
    old = next(node for n, node in enumerate(ast.walk(mutated)) if n == place)
    _Replacing(old, change.node).visit(mutated)
    return ast.fix_missing_locations(mutated)


class _Replacing(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.old else super().generic_visit(node)


def _all(parts: Sequence[ast.AST | None]) -> Iterator[ast.AST]:
    for part in parts:
        if part is not None:
            yield from ast.walk(part)


def _silent_parts(node: ast.AST) -> Sequence[ast.AST | None]:
    """What of a node decides nothing."""
    match node:
        case ast.FunctionDef(decorator_list=decorators, returns=returns):
            return [*decorators, returns]
        case ast.ClassDef(decorator_list=decorators):
            return decorators
        case (
            ast.Expr(ast.Constant() | ast.Call(ast.Name("assert_never")))
            | ast.AnnAssign(annotation=ast.Name("TypeAlias"))
            | ast.Call(ast.Name("NewType" | "TypeVar"))
        ):
            return [node]
        case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation):
            return [annotation]
        case ast.JoinedStr(values):
            return [value for value in values if isinstance(value, ast.Constant)]
        case _:
            return []
