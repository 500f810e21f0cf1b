"""Conditions of loops, as a table."""

import pytest

from perago.adapters.memory.workflow_expressions import holds
from perago.ports.errors import RequestRefusedError

DOCUMENTS = {"loop": {"iteration": 2}, "body": {"more": True, "left": 0, "name": "x"}, "max": 3}


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
def test_the_table(condition: str, *, expected: bool) -> None:
    assert holds(condition, DOCUMENTS.get) is expected


def test_other_scripts_are_refused() -> None:
    with pytest.raises(RequestRefusedError, match="no more JavaScript"):
        holds("(function() { return true; })()", DOCUMENTS.get)
