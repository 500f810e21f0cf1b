"""One small HTTP question to a server on this machine."""

import base64
import http.client
import json
import ssl
from urllib.parse import urlsplit

# A server that is about to start answers slowly; one that is ready answers in milliseconds.
ANSWER_SECONDS = 10.0


def ask(
    method: str,
    url: str,
    *,
    body: object = None,
    basic_auth: tuple[str, str] | None = None,
    timeout_seconds: float = ANSWER_SECONDS,
) -> tuple[int, bytes]:
    """Send `body` as JSON and return status and answer; OSError when no server answers."""
    parts = urlsplit(url)
    headers = {"Content-Type": "application/json"}
    if basic_auth is not None:
        token = base64.b64encode(":".join(basic_auth).encode()).decode()
        headers["Authorization"] = f"Basic {token}"
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        # A server that this machine started a moment ago, with a certificate made for it.
        unchecked = ssl.create_default_context()
        unchecked.check_hostname = False
        unchecked.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            parts.netloc, timeout=timeout_seconds, context=unchecked
        )
    else:
        connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_seconds)
    try:
        payload = None if body is None else json.dumps(body).encode()
        connection.request(method, path or "/", body=payload, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise ConnectionError(f"{method} {url}: {error!r}") from error
    finally:
        connection.close()


def answers(url: str, *, basic_auth: tuple[str, str] | None = None) -> bool:
    """Tell whether a GET is answered with 200 now."""
    try:
        status, _ = ask("GET", url, basic_auth=basic_auth, timeout_seconds=2.0)
    except OSError:
        return False
    return status == http.client.OK
