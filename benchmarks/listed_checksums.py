"""The check that a plain download leaves out: every file's MD5 against the listing's checksum."""

import hashlib
import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.servers.http import ask

THREADS = 2


def check(variables: Mapping[str, str]) -> float:
    """The seconds it takes to hash the files that a subject left; ends the run if one differs."""
    listed = _listed(variables)
    directory = Path(variables["BENCH_DIRECTORY"])
    started = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as threads:
        md5s = threads.map(_md5, [directory / name for name in listed])
        found = dict(zip(listed, md5s, strict=True))
    seconds = time.perf_counter() - started
    if found != listed:
        raise SystemExit("a downloaded file is not what the listing says")
    return seconds


def _listed(variables: Mapping[str, str]) -> dict[str, str]:
    place = f"repositories/{variables['BENCH_REPOSITORY']}/refs/{variables['BENCH_COMMIT']}"
    status, body = ask(
        "GET",
        f"{variables['BENCH_SERVER']}/api/v1/{place}/objects/ls?prefix=ws/&amount=1000",
        basic_auth=(variables["BENCH_KEY"], variables["BENCH_SECRET"]),
    )
    answer = json.loads(body)
    if answer["pagination"]["has_more"]:
        raise SystemExit(f"more objects than one page ({status}): this check is for a few")
    return {one["path"].removeprefix("ws/"): one["checksum"] for one in answer["results"]}


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "md5").hexdigest()
