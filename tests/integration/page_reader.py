"""A reader of a page: types its lines into a shell, in one directory, and ends what was started."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from perago_servers import ConductorServer, LakefsServer
from perago_servers.cache import cache_root
from perago_servers.go_programs import lakefs_programs

STARTS_SECONDS, ENDS_SECONDS = 120, 60
SCRIPTS = Path(sys.executable).parent
OTHER_TASK = """
from pydantic import BaseModel
from perago import task

class Nothing(BaseModel):
    pass

@task(name="{name}", owner_email="you@example.org")
def other(params: Nothing) -> Nothing:
    return params
"""


def settings_of(lakefs: LakefsServer, conductor: ConductorServer) -> dict[str, str]:
    """What a reader has set to reach these servers, also for the tests of the kit."""
    return {
        "PERAGO_LAKEFS": lakefs.endpoint,
        "PERAGO_CONDUCTOR": conductor.api_url,
        "LAKECTL_SERVER_ENDPOINT_URL": lakefs.endpoint,
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": lakefs.access_key_id,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": lakefs.secret_access_key,
        **lakefs.variables("lakefs"),
        **conductor.variables("conductor"),
    }


class Reader:
    """Types lines into a shell; `environment` is added to a clean one."""

    def __init__(
        self, home: Path, environment: Mapping[str, str], *, programs: Path = SCRIPTS
    ) -> None:
        self.home = home
        base = {
            "PATH": os.pathsep.join(map(str, (programs, lakefs_programs(), os.environ["PATH"]))),
            "HOME": str(home),
            "BROWSER": "/bin/true",  # what `--open` would start
            "XDG_CACHE_HOME": str(cache_root().parents[1]),
        }
        java = {name: value for name, value in os.environ.items() if name.startswith("JAVA_")}
        self._environment = {**base, **java, **environment}
        self._started = 0

    def type(self, line: str) -> str:
        """Run a line to its end; what it printed."""
        done = subprocess.run(
            ["bash", "-ec", line],  # noqa: S607 - the shell of the page
            cwd=self.home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}"
        # lakectl answers a word that it does not know with its help, and with exit code 0.
        assert "Usage:\n" not in done.stdout, f"{line}\n{done.stdout}"
        return done.stdout

    @contextmanager
    def running(self, line: str, until: str = "worker started") -> Generator[None]:
        """A line in a terminal of its own, from what it says when it is up to the end."""
        self._started += 1
        log = self.home / f"terminal-{self._started}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", line],  # noqa: S607 - the shell of the page
                cwd=self.home,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            deadline = monotonic() + STARTS_SECONDS
            while until not in log.read_text(encoding="utf-8"):
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
                goes_on = process.returncode is None and monotonic() < deadline
                assert goes_on, f"{line}\n{log.read_text(encoding='utf-8')}"
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(ENDS_SECONDS)
