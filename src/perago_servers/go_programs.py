"""The servers written in Go: built from the Go module proxy, once per version.

Decides which Go builds them. Must not know how they are started.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from perago_servers import versions
from perago_servers.cache import (
    FetchError,
    answer_of,
    build_log,
    interpreter_with,
    make_once,
    run_logged,
)

LAKEFS_MODULE = "github.com/treeverse/lakefs"
# Only the Go that was chosen here builds: it must not fetch another one behind our back.
GO_ENVIRONMENT = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "GOWORK": "off"}


def go() -> str:
    """Return a Go that is new enough: the machine's, else the one in a wheel."""
    on_path = shutil.which("go")
    if on_path is not None and _version(on_path) >= versions.GO_MINIMUM:
        return on_path
    package = answer_of(
        interpreter_with("go", versions.GO_WHEEL), "import go; print(go.__path__[0])"
    )
    return str(Path(package) / "bin" / "go")


def _version(program: str) -> tuple[int, ...]:
    answer = subprocess.run(
        [program, "env", "GOVERSION"],
        env={**os.environ, "GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    return () if found is None else tuple(int(part or 0) for part in found.groups())


def lakefs_programs() -> Path:
    """Return the directory with `lakefs` and `lakectl`."""
    return make_once(f"lakefs-{versions.LAKEFS}", _build_lakefs)


def toxiproxy_program() -> Path:
    """Return the toxiproxy server."""
    package = f"github.com/Shopify/toxiproxy/v2/cmd/server@v{versions.TOXIPROXY}"
    return _installed(f"toxiproxy-{versions.TOXIPROXY}", package) / "server"


def versitygw_program() -> Path:
    """Return versitygw, an S3 gateway over a directory."""
    package = f"github.com/versity/versitygw/cmd/versitygw@v{versions.VERSITYGW}"
    return _installed(f"versitygw-{versions.VERSITYGW}", package) / "versitygw"


def _installed(key: str, package: str) -> Path:
    def make(directory: Path) -> None:
        run_logged(
            [go(), "install", "-trimpath", package],
            what=package,
            log=build_log(key),
            env={**GO_ENVIRONMENT, "GOFLAGS": "", "GOBIN": str(directory)},
        )

    return make_once(key, make)


def _build_lakefs(directory: Path) -> None:
    """Build through a module of our own: `go install` refuses a module with replacements."""
    log = build_log(f"lakefs-{versions.LAKEFS}")
    program = go()
    source = directory / "source"
    source.mkdir()
    (source / "go.mod").write_text(_go_mod(), encoding="utf-8")
    # Two dependencies are unknown to the checksum database; the downloaded module is verified
    # against it and brings the sums of everything it needs.
    sums = _downloaded_lakefs(program, source) / "go.sum"
    (source / "go.sum").write_bytes(sums.read_bytes())
    commands = [f"{LAKEFS_MODULE}/cmd/{name}" for name in ("lakefs", "lakectl")]
    run_logged(
        [program, "build", "-mod=mod", "-trimpath", "-o", f"{directory}{os.sep}", *commands],
        what=f"lakeFS {versions.LAKEFS}",
        log=log,
        cwd=source,
        env=GO_ENVIRONMENT,
    )
    shutil.rmtree(source)


def _go_mod() -> str:
    lines = [
        "module build",
        f"go {'.'.join(str(part) for part in versions.GO_MINIMUM)}",
        f"require {LAKEFS_MODULE} v{versions.LAKEFS}",
    ]
    lines += [f"replace {old} => {new}" for old, new in versions.LAKEFS_REPLACEMENTS.items()]
    return "\n".join(lines) + "\n"


def _downloaded_lakefs(program: str, source: Path) -> Path:
    module = f"{LAKEFS_MODULE}@v{versions.LAKEFS}"
    # Outside `source`: its go.mod has no sums yet.
    answer = subprocess.run(
        [program, "mod", "download", "-json", module],
        cwd=source.parent,
        env={**os.environ, **GO_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise FetchError(
            module,
            found=answer.stdout.strip() + answer.stderr.strip(),
            remedy="check that the Go module proxy can be reached",
        )
    return Path(json.loads(answer.stdout)["Dir"])
