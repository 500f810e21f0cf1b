"""Compiles the commit protocol with the Janino that Spark ships: no JDK, no binary in the wheel.

Runs a JVM without a Spark context for a few seconds, once per pyspark version.
"""

import zipfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent / "java" / "PrivateBranchCommitProtocol.java"


def compile_protocol(target: Path) -> None:
    """Write the jar with the classes of the one source file."""
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - half a second

    gateway: Any = launch_gateway()
    try:
        compiler: Any = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        loader = gateway.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        compiler.setParentClassLoader(loader)
        compiler.cook(SOURCE.read_text(encoding="utf-8"))
        classes = {str(name): bytes(code) for name, code in dict(compiler.getBytecodes()).items()}
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
    with zipfile.ZipFile(target, "w") as jar:
        for name, code in sorted(classes.items()):
            jar.writestr(name.replace(".", "/") + ".class", code)
