"""docker-compose.yml: what can be known of it without a Docker engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml


@pytest.fixture
def compose(repository: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((repository / "docker-compose.yml").read_text())
    return loaded


def test_both_databases_are_health_checked_and_reached_from_this_machine_only(
    compose: dict[str, Any],
) -> None:
    for name in ("postgres", "mssql"):
        service = compose["services"][name]
        assert service["healthcheck"]["test"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    published = [name for name, service in compose["services"].items() if "ports" in service]
    assert published == ["postgres", "mssql"]


def test_no_password_has_a_default(repository: Path) -> None:
    text = (repository / "docker-compose.yml").read_text()
    for used in re.findall(r"\$\{(\w*PASSWORD\w*)([^}]*)\}", text):
        assert used[1] == "" or used[1].startswith(":?"), used


def test_two_workers_start_after_the_migration_and_that_after_the_database(
    compose: dict[str, Any],
) -> None:
    services = compose["services"]
    for engine, database in (("postgres", "postgres"), ("mssql", "mssql-database")):
        worker, migrate = services[f"{engine}-worker"], services[f"{engine}-migrate"]
        assert worker["deploy"]["replicas"] == 2
        assert list(worker["depends_on"]) == [f"{engine}-migrate"]
        assert list(migrate["depends_on"]) == [database]
        assert worker["environment"] == migrate["environment"]
