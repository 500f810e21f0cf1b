"""AWS Signature Version 4 for the S3 gateway, with unsigned payloads. Asks nobody; pure."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

REGION = "us-east-1"
UNSIGNED = "UNSIGNED-PAYLOAD"


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key with its secret."""

    access_key_id: str
    secret_access_key: str


def signed_headers(
    credentials: Credentials, method: str, host: str, path: str, moment: datetime
) -> dict[str, str]:
    """The headers that sign one request without a query; the path is already escaped."""
    stamp = moment.strftime("%Y%m%dT%H%M%SZ")
    headers = {"host": host, "x-amz-content-sha256": UNSIGNED, "x-amz-date": stamp}
    names = ";".join(sorted(headers))
    fields = [f"{name}:{headers[name]}" for name in sorted(headers)]
    canonical = "\n".join([method, path, "", *fields, "", names, UNSIGNED])
    scope = f"{stamp[:8]}/{REGION}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_access_key}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    authorization = (
        f"AWS4-HMAC-SHA256 Credential={credentials.access_key_id}/{scope},"
        f"SignedHeaders={names},Signature={signature}"
    )
    return {**_without_host(headers), "Authorization": authorization}


def escaped_path(*segments: str) -> str:
    """Path segments as the signature and the wire want them; slashes inside stay."""
    return "".join(f"/{quote(segment, safe='/-_.~')}" for segment in segments)


def _without_host(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "host"}
