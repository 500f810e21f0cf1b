"""Entry of the console script `perago` and of `python -m perago`.

The current directory is importable, and the version costs nothing: no command and no library is
imported before it is known that one is needed.
"""

import sys

from perago._version import __version__


def main() -> None:
    """Run the command line of this process."""
    if sys.argv[1:2] == ["--version"]:
        sys.stdout.write(f"{__version__}\n")
        return
    from pathlib import Path  # noqa: PLC0415  # after the fast path

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    from perago.app.command_line.program import program  # noqa: PLC0415  # after the fast path

    program()(prog_name="perago")


if __name__ == "__main__":
    main()
