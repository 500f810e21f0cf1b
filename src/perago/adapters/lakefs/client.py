"""One lakeFS for the event loop: the synchronous client on bounded threads, failures as values.

Decides which thread a request runs on and that a read may be asked once more. What a failure
means is `error_mapping`'s.
"""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from perago.adapters.lakefs.address import LakeFSAddressError, api_address
from perago.adapters.lakefs.configuration import LakeFSConfiguration
from perago.adapters.lakefs.error_mapping import FIRST_REFUSAL, Operation, port_error
from perago.adapters.lakefs.exchange import Failure, Lost, NotSent, Refused
from perago.ports.errors import UnavailableError, WorldError
from perago.ports.telemetry import request_sent

if TYPE_CHECKING:
    from perago.adapters.lakefs.sdk import LakeFSSdk

Answer = TypeVar("Answer")


class LakeFSClient:
    """Asks one lakeFS installation; shared by all its ports, closed by whoever made it."""

    def __init__(self, configuration: LakeFSConfiguration) -> None:
        self.address = api_address(configuration.endpoint_url)
        self._configuration = configuration
        self._calls = ThreadPoolExecutor(configuration.calls_concurrent, "lakefs-call")
        self._transfers = ThreadPoolExecutor(configuration.transfers_concurrent, "lakefs-transfer")
        self._opening = Lock()
        self._sdk: LakeFSSdk | None = None

    async def ask(self, operation: Operation, send: "Callable[[LakeFSSdk], Answer]") -> Answer:
        """Send one short request; a failure is raised as a port error."""
        return await self._raising(self._calls, operation, send)

    async def transfer(self, operation: Operation, send: "Callable[[LakeFSSdk], Answer]") -> Answer:
        """Send one request that moves an object; a failure is raised as a port error."""
        return await self._raising(self._transfers, operation, send)

    async def attempt(self, send: "Callable[[LakeFSSdk], Answer]") -> Answer | Failure:
        """Send one short request whose failure the caller turns into an answer of its own."""
        try:
            return await self._on(self._calls, send)
        except WorldError:
            raise
        except Exception as error:  # noqa: BLE001 - after sending, every exception is a failure
            return self._classified(error)

    async def check(self) -> None:
        """Ask for the configuration: the address, the certificate and the credentials at once."""
        operation = Operation("ask for the configuration of", self.address)
        found = await self.attempt(lambda sdk: sdk.raw.fetch(("config",)))
        match found:
            case Lost(text, foreign=True):
                raise LakeFSAddressError(self._configuration.endpoint_url, text)
            case Refused(status) if status < FIRST_REFUSAL:
                raise LakeFSAddressError(self._configuration.endpoint_url, "it redirects")
            case Refused() | Lost() | NotSent():
                raise port_error(operation, found)
            case bytes():
                self._check_configuration(found)

    def timeout(self, answer_seconds: float) -> tuple[float, float]:
        """The pair of time-outs for an effect that has its own budget: connecting, answering."""
        return (min(self._configuration.connect_seconds, answer_seconds), answer_seconds)

    def close(self) -> None:
        """Let what was asked end in the background and accept no more."""
        self._calls.shutdown(wait=False)
        self._transfers.shutdown(wait=False)

    def _check_configuration(self, body: bytes) -> None:
        try:
            known = "storage_config" in json.loads(body)
        except ValueError:
            known = False
        if not known:
            page = body[:60].decode("utf-8", "replace").strip()
            raise LakeFSAddressError(
                self._configuration.endpoint_url, f"it answers {page!r} instead of a configuration"
            )

    async def _raising(
        self,
        executor: ThreadPoolExecutor,
        operation: Operation,
        send: "Callable[[LakeFSSdk], Answer]",
    ) -> Answer:
        try:
            return await self._on(executor, send)
        except WorldError:
            raise
        except Exception as error:
            failure = self._classified(error)
            if operation.writes or not (isinstance(failure, Lost) and failure.broken):
                raise port_error(operation, failure) from error
        # A kept connection that its other end had closed meanwhile: reading again changes nothing.
        try:
            return await self._on(executor, send)
        except WorldError:
            raise
        except Exception as error:
            raise port_error(operation, self._classified(error)) from error

    async def _on(
        self, executor: ThreadPoolExecutor, send: "Callable[[LakeFSSdk], Answer]"
    ) -> Answer:
        loop = asyncio.get_running_loop()
        request_sent()
        try:
            answer = loop.run_in_executor(executor, partial(self._send, send))
        except RuntimeError as error:
            text = f"lakeFS at {self.address}: the client is closed, nothing was sent"
            raise UnavailableError(text) from error
        return await answer

    def _send(self, send: "Callable[[LakeFSSdk], Answer]") -> Answer:
        return send(self._opened())

    def _opened(self) -> "LakeFSSdk":
        with self._opening:
            if self._sdk is None:
                from perago.adapters.lakefs.sdk import open_sdk  # noqa: PLC0415 - half a second

                self._sdk = open_sdk(self._configuration)
            return self._sdk

    def _classified(self, error: Exception) -> Failure:
        from perago.adapters.lakefs.failures import classify  # noqa: PLC0415 - imports the client

        return classify(error)
