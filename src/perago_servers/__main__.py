"""`python -m perago_servers`: fetch what the tests need, or run servers by hand.

Decides the words of the command line. Must not know how a server is made.
"""

import argparse
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from perago_servers.cache import cache_root, is_made, say
from perago_servers.conductor import ConductorServer, conductor_server, prepare_conductor
from perago_servers.conductor_program import KEY as CONDUCTOR_KEY
from perago_servers.environment import variables
from perago_servers.errors import FetchError, ServerError
from perago_servers.go_programs import lakefs_programs, toxiproxy_program, versitygw_program
from perago_servers.lakefs import LakefsServer, lakefs_server
from perago_servers.spark_jars import KEY as SPARK_KEY
from perago_servers.spark_jars import spark_jars
from perago_servers.toxiproxy import ToxiproxyServer, toxiproxy_server
from perago_servers.versions import LAKEFS, TOXIPROXY, VERSITYGW

FETCHERS: dict[str, Callable[[], Path]] = {
    "lakefs": lakefs_programs,
    "toxiproxy": toxiproxy_program,
    "versitygw": versitygw_program,
    "conductor": prepare_conductor,
    "spark-jars": spark_jars,
}
KEYS = {
    "lakefs": f"lakefs-{LAKEFS}",
    "toxiproxy": f"toxiproxy-{TOXIPROXY}",
    "versitygw": f"versitygw-{VERSITYGW}",
    "conductor": CONDUCTOR_KEY,
    "spark-jars": SPARK_KEY,
}
Server = LakefsServer | ConductorServer | ToxiproxyServer
SERVERS: dict[str, Callable[[], AbstractContextManager[Server]]] = {
    "lakefs": lakefs_server,
    "lakefs-s3": lambda: lakefs_server(flavour="s3"),
    "conductor": conductor_server,
    "conductor-workers": lambda: conductor_server(profile="workers"),
    "toxiproxy": toxiproxy_server,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m perago_servers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="fetch and build into the cache of this user")
    fetch.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FETCHERS))
    up = commands.add_parser("up", help="run servers until Ctrl-C and print how to reach them")
    up.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SERVERS))
    commands.add_parser("status", help="tell what the cache holds")
    options = parser.parse_args(arguments)
    try:
        if options.command == "status":
            return _status()
        known = FETCHERS if options.command == "fetch" else SERVERS
        names = options.names or list(known)
        if unknown := [name for name in names if name not in known]:
            parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return _fetch(names) if options.command == "fetch" else _up(names)
    except (FetchError, ServerError) as error:
        say(str(error))
        return 1


def _fetch(names: Sequence[str]) -> int:
    for name in names:
        started = time.monotonic()
        place = FETCHERS[name]()
        print(f"{name}: {place} ({time.monotonic() - started:.1f} s)", flush=True)
    return 0


def _status() -> int:
    print(f"cache: {cache_root()}")
    for name, key in KEYS.items():
        print(f"{name}: {'ready' if is_made(key) else 'not fetched'} ({key})")
    return 0


def _up(names: Sequence[str]) -> int:
    """Run until a signal; a terminated tool stops its servers as a Ctrl-C does.

    Both are set: who is started in the background of a script inherits a Ctrl-C that is ignored.
    """
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            for name in names:
                server = stack.enter_context(SERVERS[name]())
                for variable, value in variables(name, server).items():
                    print(f"{variable}={value}", flush=True)
                print(f"# {name}: pid {server.pid}, log {server.log}", flush=True)
            print("# ready; Ctrl-C stops", flush=True)
            while True:
                signal.pause()
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
