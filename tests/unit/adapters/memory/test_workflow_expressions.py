"""Input expressions beyond the contract suite, and conditions of loops, as tables."""

import pytest

from perago.adapters.memory.workflow_expressions import as_text, holds, resolve
from perago.ports.errors import RequestRefusedError

DOCUMENTS = {"workflow": {"input": {"a": {"b.c": 1, "d": [[1, 2], 3]}}}}
VARIABLES = {"loop": {"iteration": 2}, "body": {"more": True, "left": 0, "name": "x"}, "max": 3}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (1.0, "1.0"),
        (1e20, "1.0E20"),
        (12_345_678.5, "1.23456785E7"),
        (0.0001, "1.0E-4"),
        (9_999_999.0, "9999999.0"),
        ({}, "{}"),
        ({"k": {"l": [1, None, False]}}, "{k={l=[1, null, false]}}"),
        ([], "[]"),
    ],
    ids=str,
)
def test_values_in_texts_are_written_as_java_writes_them(value: object, text: str) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("${workflow.input.a['b.c']}", 1),
        ('${workflow.input.a["b.c"]}', 1),
        ("${workflow.input.a.d[0][1]}", 2),
        ("${workflow.input.a.d[-1]}", 3),
        ("${workflow.input.a.d[-3]}", None),
        ("${workflow.input.a.d.x}", None),
        ("${workflow.input.a[0]}", None),
        ("${nobody.output.x}", None),
        ("$${a} ${workflow.input.a.d[1]}", "${a} 3"),
        ("no expression", "no expression"),
        ("$ {workflow.input}", "$ {workflow.input}"),
    ],
)
def test_paths(template: str, found: object) -> None:
    assert resolve(template, DOCUMENTS.get) == found


@pytest.mark.parametrize(
    "path", ["workflow.input.a.d[*]", "workflow.input.a.d.length()", "workflow..d", "a[?(@.x)]"]
)
def test_what_only_a_server_resolves_is_refused(path: str) -> None:
    with pytest.raises(RequestRefusedError, match="run it on a real server"):
        resolve(f"${{{path}}}", DOCUMENTS.get)


def test_every_expression_of_a_template_looks_its_first_name_up() -> None:
    template = {"x": ["${a.output.b}", {"y": "<${c[0]}> $${d}"}], "z": 5}
    found: list[str] = []
    resolve(template, found.append)
    assert found == ["a", "c"]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("if ($.loop['iteration'] < 3) { true; } else { false; }", True),
        ("if ($.loop['iteration'] < 2) { true; } else { false; }", False),
        ("if ( ($.loop['iteration'] < 3) && ($.body['more'] == true) ) {true} else {false}", True),
        ("$.loop.iteration < $.max", True),
        ("$.loop.iteration >= $.max;", False),
        ("$.body.left > 0 || $.body.name === 'x'", True),
        ("$.body.left > 0 && $.body.name === 'x'", False),
        ("$.body.name !== 'x'", False),
        ("$.body.more", True),
        ("$.body.left", False),
        ("$.body.absent < 5", False),
        ("false", False),
    ],
)
def test_conditions_of_loops(condition: str, *, expected: bool) -> None:
    assert holds(condition, VARIABLES.get) is expected


def test_other_scripts_are_refused() -> None:
    with pytest.raises(RequestRefusedError, match="no more JavaScript"):
        holds("(function() { return true; })()", VARIABLES.get)
