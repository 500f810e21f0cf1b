"""One headless Chromium that a test drives over its debugging pipe: evaluate, keys, pictures.

Chromium reads JSON messages from file descriptor 3 and answers on 4, each ended by a zero byte. No
port is opened.
"""

import base64
import json
import os
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tools.browser import REMEDY, find_browser

WAIT_SECONDS = 60.0  # a machine with eight other programs takes twenty to start Chromium
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--remote-debugging-pipe"),
)
KEYS = {
    "ArrowDown": 40,
    "ArrowUp": 38,
    "ArrowLeft": 37,
    "ArrowRight": 39,
    "PageDown": 34,
    "End": 35,
    "Home": 36,
    "Enter": 13,
    "Escape": 27,
    "Tab": 9,
}


class Chromium:
    """A page in a browser; a message of the page's console that is an error is kept."""

    def __init__(self, sent: int, received: int) -> None:
        self._sent, self._received = sent, received
        self._unread, self._number = b"", 0
        self._session = ""
        self.errors: list[str] = []

    def attach(self) -> None:
        """Open an empty page."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        found = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._ask(f"{domain}.enable")
        # A page without the focus may not write to the clipboard.
        self._ask("Emulation.setFocusEmulationEnabled", enabled=True)

    def open(self, url: str) -> None:
        """Go there and wait until the page is drawn."""
        self._ask("Page.navigate", url=url)
        self.wait_for("performance.getEntriesByName('perago-drawn').length > 0")

    def resize(self, width: int, height: int) -> None:
        """The size of the window, in pixels."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def colours(self, scheme: str) -> None:
        """Prefer `light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._ask("Emulation.setEmulatedMedia", features=features)

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401 - whatever the page has
        """The value of an expression, awaited."""
        found = self._ask(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Until an expression holds."""
        limit = time.monotonic() + WAIT_SECONDS
        while not self.evaluate(f"Boolean({expression})"):
            assert time.monotonic() < limit, f"never: {expression}"
            self.evaluate("new Promise((then) => setTimeout(then, 50))")

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
            code = {"windowsVirtualKeyCode": KEYS.get(key, ord(key.upper()[0]))}
            self._ask("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
            self._ask("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def click(self, selector: str) -> None:
        """Click with the mouse, as a person: a page may write to the clipboard after that."""
        box = f"document.querySelector({json.dumps(selector)}).getBoundingClientRect()"
        x, y = self.evaluate(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]")
        for kind in ("mousePressed", "mouseReleased"):
            mouse = {"button": "left", "clickCount": 1}
            self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **mouse)

    def picture(self, file: Path) -> Path:
        """A PNG of what is in sight."""
        found = self._ask("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(found["data"]))
        return file

    def _ask(self, method: str, **params: object) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._sent, json.dumps(message).encode() + b"\0")
        while True:
            found = self._read()
            if found.get("id") == self._number:
                assert "error" not in found, (method, found["error"])
                result: dict[str, Any] = found["result"]
                return result
            self._keep_errors(found)

    def _keep_errors(self, found: dict[str, Any]) -> None:
        if found.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(found["params"]["exceptionDetails"]))
        entry = found.get("params", {}).get("entry", {})
        # Chromium asks for an icon by itself.
        if entry.get("level") == "error" and "favicon" not in str(entry.get("url")):
            self.errors.append(f"{entry['text']} {entry.get('url')}")

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            read = os.read(self._received, 1 << 16)
            assert read, "Chromium has ended"
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found


@contextmanager
def chromium(profile: Path) -> Generator[Chromium]:
    """A browser of its own for the block."""
    program = find_browser()
    assert program, f"no Chromium: {REMEDY}"
    theirs_in, ours_out = os.pipe()
    ours_in, theirs_out = os.pipe()
    moved = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
    process = subprocess.Popen(
        ["/bin/bash", "-c", moved, "bash", program, *OPTIONS, f"--user-data-dir={profile}"],
        pass_fds=(theirs_in, theirs_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        os.close(theirs_in)
        os.close(theirs_out)
        found = Chromium(ours_out, ours_in)
        found.attach()
        yield found
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
        os.close(ours_in)
        os.close(ours_out)
