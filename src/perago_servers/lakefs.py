"""A real lakeFS, with a local block store or with an S3 one whose URLs are presigned.

Decides its configuration. Must not know what is stored in it.
"""

import json
import secrets
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from perago_servers.go_programs import lakefs_programs, versitygw_program
from perago_servers.http import answers
from perago_servers.process import HOST, Launch, Server, running

Flavour: TypeAlias = Literal["local", "s3"]
BUCKET = "perago"
REGION = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class LakefsServer(Server):
    """A running lakeFS."""

    access_key_id: str
    secret_access_key: str
    namespace_root: str

    def storage_namespace(self, repository: str) -> str:
        """Return where a new repository of that name keeps its objects."""
        return f"{self.namespace_root}{repository}"

    @property
    def has_presigned_urls(self) -> bool:
        """Tell whether the block store signs URLs."""
        return self.namespace_root.startswith("s3://")


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Store(Server):
    """A running block store that speaks S3, and its keys."""

    access_key: str
    secret_key: str

    @property
    def options(self) -> dict[str, object]:
        """Return how lakeFS is told to use it."""
        return {
            "blockstore.type": "s3",
            "blockstore.s3.endpoint": self.endpoint,
            "blockstore.s3.force_path_style": True,
            "blockstore.s3.region": REGION,
            "blockstore.s3.discover_bucket_region": False,
            "blockstore.s3.credentials.access_key_id": self.access_key,
            "blockstore.s3.credentials.secret_access_key": self.secret_key,
        }


@contextmanager
def lakefs_server(
    *,
    flavour: Flavour = "local",
    store: S3Store | None = None,
    settings: Mapping[str, object] | None = None,
    certificate: Path | None = None,
) -> Generator[LakefsServer]:
    """Run a lakeFS of its own; `settings` are dotted options: {"actions.enabled": False}.

    With a certificate (a PEM file with its key) it speaks TLS; with a `store` it starts none.
    """
    scheme, program = "http" if certificate is None else "https", str(lakefs_programs() / "lakefs")
    access_key_id = "AKIA" + secrets.token_hex(8).upper()
    secret = secrets.token_hex(20)
    with ExitStack() as stack:
        if store is None and flavour == "s3":
            store = stack.enter_context(s3_store())
        blockstore = {"blockstore.type": "local"} if store is None else store.options

        def plan(port: int, directory: Path) -> Launch:
            options = {
                **own_options(directory),
                **blockstore,
                **_tls(certificate),
                "listen_address": f"{HOST}:{port}",
                "installation.access_key_id": access_key_id,
                "installation.secret_access_key": secret,
                **(settings or {}),
            }
            return Launch(
                command=[program, "--config", str(_written(directory, options)), "run"],
                # lakeFS also reads ~/.lakefs.yaml; a person's own settings stay out of tests.
                environment={"HOME": str(directory)},
                is_ready=lambda: answers(
                    f"{scheme}://{HOST}:{port}/api/v1/user", basic_auth=(access_key_id, secret)
                ),
                scheme=scheme,
            )

        made = partial(
            LakefsServer,
            access_key_id=access_key_id,
            secret_access_key=secret,
            namespace_root="local://" if store is None else f"s3://{BUCKET}/",
        )
        name = "lakefs-local" if store is None else "lakefs-s3"
        yield stack.enter_context(running(name, plan, made))


def _tls(certificate: Path | None) -> dict[str, object]:
    if certificate is None:
        return {}
    pem = str(certificate)
    return {"tls.enabled": True, "tls.cert_file": pem, "tls.key_file": pem}


def own_options(directory: Path) -> dict[str, object]:
    """Return the options of every lakeFS here, by dotted names; deploy/compose.yaml has them."""
    return {
        "logging.level": "INFO",
        "database.type": "local",
        "database.local.path": str(directory / "metadata"),
        "blockstore.local.path": str(directory / "blocks"),
        "blockstore.signing.secret_key": secrets.token_hex(16),
        "committed.local_cache.dir": str(directory / "cache"),
        "auth.encrypt.secret_key": secrets.token_hex(16),
        "installation.user_name": "perago",
        "stats.enabled": False,
        "usage_report.enabled": False,
        "security.check_latest_version": False,
    }


@contextmanager
def s3_store() -> Generator[S3Store]:
    """Run an S3 gateway over a directory of its own, with one bucket."""
    access_key, secret_key = secrets.token_hex(8), secrets.token_hex(16)
    program = versitygw_program()

    def plan(port: int, directory: Path) -> Launch:
        blocks = directory / "blocks"
        (blocks / BUCKET).mkdir(parents=True)
        return Launch(
            command=[
                *(str(program), "--port", f"{HOST}:{port}", "--health", "/health"),
                *("--region", REGION, "posix", str(blocks)),
            ],
            environment={"ROOT_ACCESS_KEY": access_key, "ROOT_SECRET_KEY": secret_key},
            is_ready=lambda: answers(f"http://{HOST}:{port}/health"),
        )

    made = partial(S3Store, access_key=access_key, secret_key=secret_key)
    with running("versitygw", plan, made) as store:
        yield store


def _written(directory: Path, options: Mapping[str, object]) -> Path:
    configuration = directory / "lakefs.yaml"
    configuration.write_text(json.dumps(_nested(options), indent=1), encoding="utf-8")
    return configuration


def _nested(options: Mapping[str, object]) -> dict[str, Any]:
    """Turn dotted names into the tree that a configuration file wants (JSON is YAML)."""
    tree: dict[str, Any] = {}
    for name, value in options.items():
        *parents, leaf = name.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[leaf] = value
    return tree
