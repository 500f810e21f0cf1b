"""A home of Spark in scratch space: the executors of a `local-cluster` keep their files in it.

Their workers write below the home, beside the jars, and no option of Spark moves that. Starts
nothing.
"""

import atexit
import shutil
import tempfile
from pathlib import Path

from perago.adapters.spark.installation import pyspark_jars

CLUSTER = "local-cluster"
_WRITTEN = "work"


def scratch_home(installed: Path | None = None) -> Path:
    """A directory with links to all of the installed pyspark; it goes with this process."""
    home = Path(tempfile.mkdtemp(prefix="perago-spark-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for each in (installed or pyspark_jars().parent).iterdir():
        if each.name != _WRITTEN:
            (home / each.name).symlink_to(each)
    return home
