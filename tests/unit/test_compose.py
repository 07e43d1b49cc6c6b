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
    published = [name for name, service in compose["services"].items() if "ports" in service]
    assert published == ["postgres", "dashboard", "prometheus", "grafana", "mssql"]
    for name in published:
        for port in compose["services"][name]["ports"]:
            assert port.startswith("127.0.0.1:")


def test_containers_have_no_rights(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
    assert {name for name, one in services.items() if "cap_add" in one} == {"mssql"}
    # SQL Server writes below /var/opt and elsewhere.
    assert {name for name, one in services.items() if not one.get("read_only")} == {"mssql"}


def test_no_password_has_a_default(repository: Path) -> None:
    text = (repository / "docker-compose.yml").read_text()
    for used in re.findall(r"\$\{(\w*(?:PASSWORD|TOKEN)\w*)([^}]*)\}", text):
        assert used[1] == "" or used[1].startswith(":?"), used


def test_two_workers_start_after_their_user_the_migration_and_the_database(
    compose: dict[str, Any],
) -> None:
    services = compose["services"]
    for engine, database in (("postgres", "postgres"), ("mssql", "mssql-database")):
        worker, migrate = services[f"{engine}-worker"], services[f"{engine}-migrate"]
        assert worker["deploy"]["replicas"] == 2
        assert list(worker["depends_on"]) == [f"{engine}-users"]
        assert list(services[f"{engine}-users"]["depends_on"]) == [f"{engine}-migrate"]
        assert list(migrate["depends_on"]) == [database]


def test_only_migrations_run_as_the_owner(compose: dict[str, Any]) -> None:
    users = {
        name: re.split(r"[:/]+", service["environment"]["ROWLEASE_DSN"])[1]
        for name, service in compose["services"].items()
        if "ROWLEASE_DSN" in service.get("environment", {})
    }
    assert users == {
        "postgres-migrate": "rowlease",
        "postgres-worker": "worker",
        "exporter": "reader",
        "dashboard": "reader",
        "mssql-migrate": "sa",
        "mssql-worker": "worker",
    }


def test_prometheus_scrapes_what_listens(compose: dict[str, Any], repository: Path) -> None:
    file = repository / "deploy" / "prometheus" / "prometheus.yaml"
    exporter, worker = yaml.safe_load(file.read_text())["scrape_configs"]
    services = compose["services"]
    (target,) = exporter["static_configs"][0]["targets"]
    name, port = target.split(":")
    assert services[name]["command"][-1] == f"0.0.0.0:{port}"
    (found,) = worker["dns_sd_configs"]
    (name,) = found["names"]
    assert services[name]["command"][-1] == f"0.0.0.0:{found['port']}"


def test_every_file_that_a_service_mounts_is_there(
    compose: dict[str, Any], repository: Path
) -> None:
    volumes = [
        one for service in compose["services"].values() for one in service.get("volumes", [])
    ]
    paths = [one.partition(":")[0] for one in volumes if one.startswith("./")]
    missing = [path for path in paths if not (repository / path).exists()]
    assert set(missing) == {"./app"}  # yours
