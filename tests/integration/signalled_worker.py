"""A worker in a process of its own that sends itself real signals: SIGKILL, or SIGSTOP.

Started by `struck_process`, it works on the tasks of somebody else's environment until it dies, or
until somebody lets it go on; then it says how its attempt ended. Knows no policy.
"""

import asyncio
import json
import os
import signal
import sys
from dataclasses import asdict
from typing import Any, final

from tests.kit_cases import counting_task

from perago.testing.environment import PeragoEnvironment
from perago.testing.faults import Call, Crash, Fault, Side, Zombie, crash, zombie
from perago.testing.remote_servers import RealServers, RemoteServers
from perago.testing.servers import RealMeans, Send

POLLS_MAX = 200
POLL_SECONDS = 0.1


@final
class OwnSignals(RealMeans):
    """Kills or stops this process; whoever started it can see which."""

    def can(self, fault: Fault, call: Call) -> bool:
        """Crashes and zombies."""
        del call
        return isinstance(fault, Crash | Zombie)

    async def carry(self, fault: Fault, send: Send) -> Any:  # noqa: ANN401 - a port's answer
        """Strike on the fault's side of the call."""
        number = signal.SIGKILL if isinstance(fault, Crash) else signal.SIGSTOP
        if fault.moment.side is Side.BEFORE:
            os.kill(os.getpid(), number)
            return await send()
        answer = await send()
        os.kill(os.getpid(), number)
        return answer


def planned(fault: Fault) -> dict[str, str]:
    """A fault as it travels to the process."""
    return {"kind": type(fault).__name__, str(fault.moment.side): fault.moment.point}


async def struck_process(
    ground: RemoteServers, policy: str, fault: Fault
) -> asyncio.subprocess.Process:
    """Start one on the servers of a ground."""
    order: dict[str, object] = {"servers": asdict(ground.servers), "domain": ground.domain}
    order |= {"policy": policy, "lease": ground.lease_seconds}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, json.dumps({**order, "fault": planned(fault)})),
        stdout=asyncio.subprocess.PIPE,
    )


async def _work(order: dict[str, Any]) -> None:
    servers = RealServers(**order["servers"])
    ground = RemoteServers(servers, OwnSignals(), lease_seconds=order["lease"])
    ground.domain = order["domain"]
    make = crash if order["fault"].pop("kind") == "Crash" else zombie
    clean, _ = counting_task()
    env = PeragoEnvironment(policy=order["policy"], servers=ground)
    await env.register(clean)
    env.plan(make(**order["fault"]))
    for _ in range(POLLS_MAX):
        await env.until_idle()
        if env.attempts:
            break  # the server had scheduled it by now
        await asyncio.sleep(POLL_SECONDS)
    for story in env.attempts:
        print(f"{story.status} {story.recorded}".strip())  # noqa: T201 - its report
    if env.pending_faults:
        print(await env.story_text())  # noqa: T201 - why no fault struck


if __name__ == "__main__":
    asyncio.run(_work(json.loads(sys.argv[1])))
