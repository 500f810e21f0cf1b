"""The SDK is imported late, so it may be two threads that import it at the same moment."""

import subprocess
import sys

import pytest

ALL_AT_ONCE = """
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from perago.adapters.conductor.connection_settings import ConductorSettings
from perago.adapters.conductor.http_connection import HttpConnection
from perago.adapters.conductor.sdk_import import sdk_client

settings = ConductorSettings("http://127.0.0.1:9/api")
start = Barrier(8)
def client(_):
    start.wait()
    return sdk_client(settings, HttpConnection(settings))
with ThreadPoolExecutor(8) as threads:
    print(len(list(threads.map(client, range(8)))))
"""


@pytest.mark.scale
def test_eight_threads_may_need_the_sdk_first() -> None:
    program = [sys.executable, "-c", ALL_AT_ONCE]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "8", done.stderr[-2000:]
