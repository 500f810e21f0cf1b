"""Says where Chromium is, and installs Debian's when it is missing and this may be done.

The browser tests need it; a machine without one fails with what is to be done, and is not skipped.
"""

import os
import shutil
import subprocess
import sys

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
REMEDY = "install Chromium (on Debian, as root: apt-get update && apt-get install -y chromium)"
SECONDS_MAX = 600


def find_browser() -> str | None:
    """The first program of the list that is there."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def obstacle(apt_get: str | None, user: int) -> str | None:
    """Why it cannot be installed from here, or None."""
    if apt_get is None:
        return "there is no apt-get on this machine"
    if user != 0:
        return "only root may use apt-get"
    return None


def install(apt_get: str) -> None:
    """Fetch Debian's package; its output is shown only when it fails."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        subprocess.run(
            [apt_get, *step],
            env=quiet,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
        )


def main() -> int:
    """Print the program; 1 with the reason and the remedy when there is none."""
    found = find_browser()
    if found is None:
        apt_get = shutil.which("apt-get")
        reason = obstacle(apt_get, os.geteuid())
        if reason is None and apt_get is not None:
            try:
                install(apt_get)
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
                reason = f"{error}\n{error.stdout!s}"
        found = find_browser()
        if found is None:
            print(f"no Chromium: {reason or 'apt-get left none'}; {REMEDY}", file=sys.stderr)
            return 1
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
