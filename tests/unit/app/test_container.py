"""Which adapter an address opens, and what the container keeps of those it opened."""

from datetime import timedelta
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from perago.adapters.observability import json_lines
from perago.app import container
from perago.app.connections import ConductorConnection, Connections, LakeFSConnection
from perago.app.settings.settings import load_settings
from perago.domain.errors import RuntimeConfigError
from perago.domain.text import Secrets

POINTS = (
    EntryPoint("lakefs.str", "builtins:str", container.ADAPTERS_GROUP),
    EntryPoint("conductor.other", "builtins:str", container.ADAPTERS_GROUP),
)


def test_what_was_opened_is_known_for_closing(tmp_path: Path) -> None:
    parts = container.Container(
        connections=Connections(
            load_settings(cwd=tmp_path, process_env={}),
            lakefs=LakeFSConnection(url="memory:container"),
            conductor=ConductorConnection(url="memory:container"),
        )
    )
    assert parts.opened() == []
    lakefs = parts.lakefs()
    assert parts.opened() == [lakefs]
    assert parts.opened() == [lakefs, parts.conductor()]


def test_a_scheme_of_a_package_is_opened_and_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def points(*, group: str) -> tuple[EntryPoint, ...]:
        return tuple(point for point in POINTS if point.group == group)

    monkeypatch.setattr(container, "entry_points", points)
    connection = LakeFSConnection(url="str:anything")
    opened: object = container.open_lakefs(connection)
    assert opened == str(connection)
    with pytest.raises(RuntimeConfigError, match=r"known: http, https, memory, str$"):
        container.open_lakefs(LakeFSConnection(url="absent://x"))


def test_the_log_of_a_worker_is_kept_as_the_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[json_lines.WorkerLogSettings] = []
    monkeypatch.setattr(json_lines, "worker_log", opened.append)
    said = {
        "PERAGO_LOG_ROOT": str(tmp_path / "logs"),
        "PERAGO_LOG_FILE_MAX_SIZE": "5MB",
        "PERAGO_LOG_RETENTION": "3d",
    }
    settings = load_settings(cwd=tmp_path, process_env=said)
    file = tmp_path / "logs" / "team" / "worker.jsonl"
    container.open_worker_log(settings, file, ["hunter2secret"])
    secrets = Secrets.of(["hunter2secret"])
    assert opened == [
        json_lines.WorkerLogSettings(
            file, tmp_path / "logs", 5 * 1024 * 1024, timedelta(days=3), secrets=secrets
        )
    ]
