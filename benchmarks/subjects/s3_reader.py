"""obstore: read every object through the S3 gateway, digest it, write it.

Runs in an environment that has obstore. What it does with the bytes is what Perago does.
"""

import asyncio
import hashlib
import os
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.subjects.assignment import Assignment, processor_seconds, tell


async def main() -> None:
    """Measure one download."""
    store_module: Any = import_module("obstore.store")
    obstore: Any = import_module("obstore")
    told = Assignment()
    store = store_module.S3Store(
        told.repository,
        endpoint=told.endpoint,
        access_key_id=told.access_key_id,
        secret_access_key=told.secret_access_key,
        region="us-east-1",
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    lanes = asyncio.Semaphore(int(os.environ["BENCH_LANES"]))
    prefix = f"{told.commit}/ws/"

    async def fetch(path: str) -> None:
        target = told.directory / path.removeprefix(prefix)
        async with lanes:
            answer = await obstore.get_async(store, path)
            digest = hashlib.md5(usedforsecurity=False)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb", buffering=0) as file:
                async for piece in answer.stream(min_chunk_size=1 << 20):
                    await asyncio.to_thread(_take, piece, digest, file)

    used, started = processor_seconds(), time.perf_counter()
    paths: list[str] = []
    async for page in obstore.list(store, prefix):
        paths += [one["path"] for one in page]
    await asyncio.gather(*map(fetch, paths))
    seconds = time.perf_counter() - started
    tell("cold", seconds, cpu=processor_seconds() - used)


def _take(piece: Any, digest: Any, file: Any) -> None:  # noqa: ANN401 - obstore's own bytes
    digest.update(piece)
    file.write(piece)


asyncio.run(main())
