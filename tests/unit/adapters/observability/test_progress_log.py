"""One line of JSON for each phase."""

import json
import logging

import pytest

from perago.adapters.observability.progress import LOGGER_NAME, ProgressLog, progress_line
from perago.ports.workspace import Phase


def test_a_phase_is_one_line_of_json() -> None:
    line = progress_line(Phase.STAGED, {"branch": "b", "objects": 3, "bad": ValueError("x\ny")})
    assert "\n" not in line
    assert json.loads(line) == {"phase": "staged", "branch": "b", "objects": 3, "bad": "x\ny"}


def test_a_warning_has_the_level_of_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOGGER_NAME):
        ProgressLog().phase(Phase.PUBLISHED, {})
        ProgressLog().phase(Phase.WARNED, {"what": "x"})
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING]
