"""The JDBC drivers: which one a database needs, where Spark finds it, and its checksum."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from rowlease.errors import ConfigError
from rowlease.store import JdbcDriver, engine_of

JARS_VARIABLE = "ROWLEASE_JDBC_JARS"


#: A dependency of the PostgreSQL driver that is not needed at run time: annotations for a checker.
EXCLUDES = "org.checkerframework:checker-qual"


def drivers_for(dsn: str | None) -> list[JdbcDriver]:
    """The drivers that a session needs: PostgreSQL's, and as the last one that of this database."""
    default = "postgresql://"
    return list(dict.fromkeys(engine_of(each).jdbc_driver for each in (default, dsn or default)))


def driver_settings(drivers: list[JdbcDriver]) -> dict[str, str]:
    """The settings with which Spark finds the drivers: the jars of ROWLEASE_JDBC_JARS, or Maven.

    Raises:
        ConfigError: the variable names a jar that does not exist.
    """
    named = os.environ.get(JARS_VARIABLE, "")
    jars = [Path(name.strip()) for name in re.split(f"[,{os.pathsep}]", named) if name.strip()]
    for jar in jars:
        if not jar.is_file():
            raise ConfigError(
                f"{JARS_VARIABLE} names {jar}, which is not a file; name the jar of the "
                f"{drivers[-1].database} JDBC driver, or several jars separated by commas"
            )
    if jars:
        return {"spark.jars": ",".join(str(jar.resolve()) for jar in jars)}
    return {
        "spark.jars.packages": ",".join(driver.package for driver in drivers),
        "spark.jars.excludes": EXCLUDES,
    }


def check_driver(session: Any, driver: JdbcDriver) -> None:
    """Check that a running session has the driver.

    Raises:
        ConfigError: the driver is missing, or the jar from Maven is not the published one.
    """
    from py4j.protocol import Py4JError

    jvm = session.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        # `False` finds the class without initializing it.
        found = jvm.java.lang.Class.forName(driver.class_name, False, loader)
        source = str(found.getProtectionDomain().getCodeSource().getLocation())
    except Py4JError as error:
        named = os.environ.get(JARS_VARIABLE)
        where = f"; {JARS_VARIABLE} names {named}" if named else ""
        raise ConfigError(
            f"this Spark session cannot load the JDBC driver {driver.class_name}{where}; set "
            f"{JARS_VARIABLE} to a jar of the {driver.database} JDBC driver before Spark is started"
        ) from error
    jar = Path(unquote(urlsplit(source).path))
    if jar.name == driver.jar and hashlib.sha256(jar.read_bytes()).hexdigest() != driver.sha256:
        raise ConfigError(
            f"{jar} is not the published JDBC driver {driver.package}; delete it, or set "
            f"{JARS_VARIABLE} to a jar that you trust"
        )
