"""Has Spark's daemon import, once, what each Python worker that it forks would import.

Python runs this module at its start if the folder is in PYTHONPATH; `tests.spark.jvm.worker_path`
puts it there. Most Python workers of the tests live for one task. To import takes each of them half
a second of processor time, and so does the zip of PySpark that Spark puts before the package: it
has no compiled files, and Python 3.11 reads its table again for each task.
"""

from __future__ import annotations

import sys

if "pyspark.daemon" in sys.orig_argv:
    import gc
    from importlib import import_module

    WORKER = sys.orig_argv[-1]
    sys.path[:] = [path for path in sys.path if not path.endswith(".zip")]
    for needed in (
        WORKER,
        "pyarrow.csv",
        *(["pandas"] if WORKER == "pyspark.worker" else []),
        "rowlease.spark.copy_writer",
        "rowlease.spark.source_writer",
        "rowlease.store.postgresql.bulk",
        "rowlease.store.postgresql.engine",
    ):
        import_module(needed)

    from rowlease.store.routines import load_routines

    load_routines("postgresql")
    gc.freeze()  # a worker collects its garbage after each task
