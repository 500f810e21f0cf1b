"""Which adapter an address opens, and what the container keeps of those it opened."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from perago.app import container
from perago.app.connections import ConductorConnection, Connections, LakeFSConnection
from perago.domain.errors import RuntimeConfigError

POINTS = (
    EntryPoint("lakefs.str", "builtins:str", container.ADAPTERS_GROUP),
    EntryPoint("conductor.other", "builtins:str", container.ADAPTERS_GROUP),
)


def test_what_was_opened_is_known_for_closing(tmp_path: Path) -> None:
    parts = container.Container(
        connections=Connections(
            workspace_root=tmp_path,
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
