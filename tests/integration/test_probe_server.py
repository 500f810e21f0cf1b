"""Which requests the probe server answers; what the probes say is `test_worker_probes`."""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence

import pytest

from perago.adapters.observability.probe_server import probe_server

LIVES: Mapping[str, Callable[[], bool]] = {"/livez": lambda: True}
PATHS = ["/metrics", "/livez"]


async def ask(
    path: str,
    *hosts: str,
    version: str = "1.1",
    probes: Mapping[str, Callable[[], bool]] = LIVES,
    notes: Sequence[str] = (),
) -> tuple[int, str]:
    """The status and the text of one answer."""
    metrics = "runtime_busy_slots 1\n"
    served = probe_server("127.0.0.1", 0, probes, lambda: metrics, lambda: notes)
    async with served as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        fields = "".join(f"Host: {host}\r\n" for host in hosts)
        writer.write(f"GET {path} HTTP/{version}\r\n{fields}\r\n".encode())
        answer = (await reader.read()).decode()
        writer.close()
    return int(answer.split()[1]), answer.partition("\r\n\r\n")[2]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:9102",
        "[::1]:9102",
        "[::1]",
        "10.2.3.4:9102",
        "localhost:9102",
        "localhost",
        "LOCALHOST.",
        "worker",
        "worker:9102",
        "worker.team.svc:9102",
        "worker.team.svc.cluster.local:9102",
        socket.gethostname(),
        "",
    ],
)
async def test_addresses_and_names_that_cannot_be_registered_are_answered(
    path: str, host: str
) -> None:
    assert (await ask(path, host))[0] == 200


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "hosts",
    [
        ("attacker.example:9102",),
        ("127.0.0.1.attacker.example",),
        ("localhost.attacker.example:9102",),
        ("svc.attacker.example",),
        ("127.0.0.1", "attacker.example"),
    ],
)
async def test_the_page_of_a_stranger_reads_nothing(path: str, hosts: tuple[str, ...]) -> None:
    status, text = await ask(path, *hosts)
    assert status == 421
    assert "runtime" not in text
    assert "PERAGO_PROBE_ADDRESS" in text


async def test_a_prober_that_sends_no_host_is_answered() -> None:
    assert (await ask("/livez", version="1.0"))[0] == 200


async def test_notes_stand_below_the_answer_of_a_probe() -> None:
    notes = ["attempts that wait for lakeFS: 2"]
    probes = {"/readyz": lambda: False, "/livez": lambda: True}
    assert await ask("/readyz", probes=probes, notes=notes) == (503, f"not ok\n{notes[0]}\n")
    assert await ask("/livez", probes=probes, notes=notes) == (200, f"ok\n{notes[0]}\n")
