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
from typing import NamedTuple

from perago_servers.cache import FetchError, cache_root, is_made, say
from perago_servers.conductor import KEY as CONDUCTOR_KEY
from perago_servers.conductor import conductor_server, prepare_conductor
from perago_servers.go_programs import lakefs_programs, toxiproxy_program, versitygw_program
from perago_servers.ivy import SPARK_JARS_KEY, spark_jars
from perago_servers.lakefs import lakefs_server
from perago_servers.process import Server, ServerError, wait_until_one_ends
from perago_servers.toxiproxy import toxiproxy_server
from perago_servers.versions import LAKEFS, TOXIPROXY, VERSITYGW


class Program(NamedTuple):
    """Something that is fetched or built once: its name in the cache, and how it gets there."""

    key: str
    fetch: Callable[[], Path]


PROGRAMS = {
    "lakefs": Program(f"lakefs-{LAKEFS}", lakefs_programs),
    "toxiproxy": Program(f"toxiproxy-{TOXIPROXY}", toxiproxy_program),
    "versitygw": Program(f"versitygw-{VERSITYGW}", versitygw_program),
    "conductor": Program(CONDUCTOR_KEY, prepare_conductor),
    "spark-jars": Program(SPARK_JARS_KEY, spark_jars),
}
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
    fetch.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PROGRAMS))
    up = commands.add_parser("up", help="run servers until Ctrl-C and print how to reach them")
    up.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SERVERS))
    commands.add_parser("status", help="tell what the cache holds")
    options = parser.parse_args(arguments)
    try:
        if options.command == "status":
            return _status()
        known = list(PROGRAMS if options.command == "fetch" else SERVERS)
        names = options.names or known
        if unknown := [name for name in names if name not in known]:
            parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return _fetch(names) if options.command == "fetch" else _up(names)
    except (FetchError, ServerError) as error:
        say(str(error))
        return 1


def _fetch(names: Sequence[str]) -> int:
    for name in names:
        started = time.monotonic()
        place = PROGRAMS[name].fetch()
        print(f"{name}: {place} ({time.monotonic() - started:.1f} s)", flush=True)
    return 0


def _status() -> int:
    print(f"cache: {cache_root()}")
    for name, program in PROGRAMS.items():
        print(f"{name}: {'ready' if is_made(program.key) else 'not fetched'} ({program.key})")
    return 0


def _up(names: Sequence[str]) -> int:
    """Run until a signal, or until a server ends; a terminated tool stops as a Ctrl-C does.

    Both are set: who is started in the background of a script inherits a Ctrl-C that is ignored.
    """
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            running: dict[str, Server] = {}
            for name in names:
                server = running[name] = stack.enter_context(SERVERS[name]())
                for variable, value in server.variables(name).items():
                    print(f"{variable}={value}", flush=True)
                print(f"# {name}: pid {server.pid}, log {server.log}", flush=True)
            print("# ready; Ctrl-C stops", flush=True)
            wait_until_one_ends(running)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
