"""deploy/: what can be known of it without a cluster, by the tools that this machine has."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import kubernetes_validate
import pytest
import yaml

from rowlease.cli import cli
from rowlease.cli.dashboard import OPERATOR_TOKEN, READER_TOKEN
from rowlease.metrics import exporter
from rowlease.metrics.worker_metrics import METRICS
from tests.machine import path_of

#: Metrics without a table of their own in the code.
SCALARS = {f"rowlease_{name}" for name in (
    "up", "scrape_seconds", "exporter_info", "worker_live", "worker_ready", "worker_draining",
    "worker_slots", "worker_busy_slots")}  # fmt: skip
KNOWN = {*exporter.GAUGES, *exporter.COUNTERS, *METRICS, *SCALARS}


def metrics_in(expression: str) -> set[str]:
    names = re.findall(r"\browlease_\w+", expression)
    return {re.sub(r"_seconds_(bucket|sum|count)$", "_seconds", name) for name in names}


@pytest.fixture
def deploy(repository: Path) -> Path:
    return repository / "deploy"


# -- Prometheus --------------------------------------------------------------------------------


class Case(NamedTuple):
    """Series that make an alert fire at `at`, and what differs in series that do not.

    Attributes:
        series: name with labels, and values one minute apart, in the notation of promtool.
        quiet: series in place of those of the same name, with which the alert is silent.
        labels: the labels of the alert, without its severity.
    """

    series: dict[str, str]
    quiet: dict[str, str]
    at: str
    labels: dict[str, str]


def of_queue(name: str, loud: str, quiet: str, at: str) -> Case:
    series = f'{name}{{instance="i", queue="q"}}'
    return Case({series: loud}, {series: quiet}, at, {"instance": "i", "queue": "q"})


def of_worker(name: str, loud: str, quiet: str, at: str, **labels: str) -> Case:
    given = {"instance": "i", **labels}
    listed = ", ".join(f'{key}="{value}"' for key, value in given.items())
    return Case({f"{name}{{{listed}}}": loud}, {f"{name}{{{listed}}}": quiet}, at, given)


def outcome(outcome: str) -> Case:
    name = f'rowlease_worker_outcomes_total{{kind="k", outcome="{outcome}", queue="q"}}'
    return Case({name: "0 1+0x30"}, {name: "1+0x30"}, "10m", {"kind": "k", "queue": "q"})


NO_PAUSE = {'rowlease_queue_paused{instance="i", queue="q"}': "0x30"}
PENDING = 'rowlease_requests{instance="i", queue="q", priority="0", status="Pending"}'
FAILED = 'rowlease_requests{instance="i", queue="q", priority="%d", status="Failed"}'
PAUSED = 'rowlease_queue_paused{instance="i", queue="q"}'
WORKERS = 'rowlease_workers{instance="i", queue="q"}'
QUEUE = {"instance": "i", "queue": "q"}
FINISHED = 'rowlease_finished_requests_total{instance="i", queue="q"}'
LATE = of_queue("rowlease_oldest_request_seconds", "601+60x30", "600x30", "10m")
CONNECTIONS = 'rowlease_connections{instance="i"}'
DRAINING = 'rowlease_worker_draining{instance="i"}'
FREE = "rowlease_queue_free_places"
CASES = {
    "RowleaseExporterDown": Case({"other": "0x30"}, {"rowlease_up": "1x30"}, "6m", {}),
    "RowleaseDatabaseDown": of_worker("rowlease_up", "0x30", "1x30", "2m"),
    "RowleaseNoWorker": Case(
        {'rowlease_demand{instance="i", queue="q"}': "3x30", WORKERS: "0x30"},
        {WORKERS: "1x30"},
        "6m",
        QUEUE,
    ),
    "RowleaseQueueLate": LATE._replace(series={**LATE.series, **NO_PAUSE}, quiet={PAUSED: "1x30"}),
    "RowleaseQueuePaused": Case({PAUSED: "1x90", PENDING: "1x90"}, {PENDING: "0x90"}, "61m", QUEUE),
    "RowleaseQueueFull": of_queue(FREE, "0x30", "1x30", "6m"),
    "RowleaseDeadLetters": Case(
        {FAILED % 0: "0x40", FAILED % 5: "_x20 1x20"},
        {FAILED % 0: "1x20 0x20"},
        "30m",
        {"queue": "q"},
    ),
    "RowleaseFailures": Case(
        {
            'rowlease_failed_attempts_total{instance="i", queue="q"}': "0+30x60",
            FINISHED: "0+100x60",
        },
        {FINISHED: "0+121x60"},
        "40m",
        QUEUE,
    ),
    "RowleaseOverdueLeases": of_queue("rowlease_overdue_leases", "1x30", "0x30", "3m"),
    "RowleaseScheduleLate": of_worker(
        "rowlease_schedule_late_seconds", "121+60x30", "120x30", "2m", schedule="s"
    ),
    "RowleaseLoadSilent": of_queue("rowlease_load_silent_seconds", "901+60x30", "900x30", "6m"),
    "RowleaseWorkersSilent": of_worker("rowlease_silent_workers", "1x30", "0x30", "6m"),
    "RowleaseHorizonOld": of_worker("rowlease_horizon_seconds", "901+60x30", "900x30", "2m"),
    "RowleaseDeadRows": of_worker(
        "rowlease_dead_rows", "500001x30", "500000x30", "16m", table="queue"
    ),
    "RowleaseConnections": Case(
        {CONNECTIONS: "91x30", 'rowlease_max_connections{instance="i"}': "100x30"},
        {CONNECTIONS: "90x30"},
        "6m",
        {"instance": "i"},
    ),
    "RowleaseWorkerNotReady": Case(
        {'rowlease_worker_ready{instance="i"}': "0x30", DRAINING: "0x30"},
        {DRAINING: "1x30"},
        "6m",
        {"instance": "i"},
    ),
    "RowleaseRenewalsLost": of_worker(
        "rowlease_worker_renewals_lost_total", "0 1+0x30", "1+0x30", "10m"
    ),
    "RowleaseLeasesLost": outcome("lease_lost"),
    "RowleaseOutcomesRefused": outcome("refused"),
    "RowleaseStuckCalls": of_worker(
        "rowlease_worker_stuck_calls_total", "0 1+0x30", "1+0x30", "10m", call="renew"
    ),
    # All samples are inside the 15 minutes; Prometheus 3 counts none at their edge, and 2 does.
    "RowleaseChildDeaths": of_worker(
        "rowlease_worker_child_deaths_total", "0 5+0x30", "0 3+0x30", "14m"
    ),
    "RowleaseRestarts": of_worker("rowlease_worker_restarts_total", "0 5+0x30", "0 3+0x30", "14m"),
    "RowleaseFinding": of_worker(
        "rowlease_findings", "1x30", "_x30", "11m", finding="counts", subject="q"
    ),
}


def up(database: str, instance: str = "i") -> str:
    return f'rowlease_up{{database="{database}", instance="{instance}"}}'


def dead(instance: str = "i") -> str:
    labels = f'database="d", instance="{instance}", priority="0", queue="q", status="Failed"'
    return f"rowlease_requests{{{labels}}}"


def finding(name: str, subject: str = "q") -> dict[str, str]:
    return {"finding": name, "instance": "i", "subject": subject}


def findings(name: str, subject: str = "q") -> str:
    return f'rowlease_findings{{finding="{name}", instance="i", subject="{subject}"}}'


#: Findings, and the alert that each has beside `RowleaseFinding`.
OWN_ALERTS = {
    findings("dead_letters"): "RowleaseDeadLetters",
    findings("full"): "RowleaseQueueFull",
    findings("horizon"): "RowleaseHorizonOld",
    findings("load"): "RowleaseLoadSilent",
    findings("no_worker"): "RowleaseNoWorker",
    findings("old"): "RowleaseQueueLate",
    findings("overdue"): "RowleaseOverdueLeases",
    findings("paused"): "RowleaseQueuePaused",
    findings("schedule"): "RowleaseScheduleLate",
    findings("connections", "the server"): "RowleaseConnections",
}
TWO = {up("a"): "1x90", up("b"): "1x20 _x70"}
DEAD = {"database": "d", "queue": "q"}
#: Further cases, by what is special.
MORE = {
    "one of two exporters": (
        "RowleaseExporterDown",
        Case(TWO, {up("b"): "1x90"}, "40m", {"database": "b"}),
    ),
    "an exporter that has another instance now": (
        "RowleaseExporterDown",
        Case(TWO, {up("b", "new"): "_x20 1x70"}, "40m", {"database": "b"}),
    ),
    "a new queue": (
        "RowleaseDeadLetters",
        Case({dead(): "_x20 10000x40"}, {dead(): "_x20 0x40"}, "30m", DEAD),
    ),
    "a new instance of the exporter": (
        "RowleaseDeadLetters",
        Case(
            {dead(): "5x20 _x60", dead("new"): "_x20 5000x60"},
            {dead("new"): "_x20 5x60"},
            "32m",
            DEAD,
        ),
    ),
    "a second exporter of the database": (
        "RowleaseDeadLetters",
        Case(
            {dead(): "5x60", dead("second"): "_x20 6x40"},
            {dead("second"): "_x20 5x40"},
            "30m",
            DEAD,
        ),
    ),
    "findings that have an alert of their own": (
        "RowleaseFinding",
        Case(
            {findings("drift"): "1x30", **dict.fromkeys(OWN_ALERTS, "1x30")},
            {findings("drift"): "_x30"},
            "11m",
            finding("drift"),
        ),
    ),
    "a limit of connections of the database alone": (
        "RowleaseFinding",
        Case(
            {findings("connections", "the database"): "1x30"},
            {findings("connections", "the database"): "_x30"},
            "11m",
            finding("connections", "the database"),
        ),
    ),
    "a gap of half an hour": (
        "RowleaseDeadLetters",
        Case({dead(): "5x20 _x30 6x40"}, {dead(): "5x20 _x30 5x40"}, "55m", DEAD),
    ),
}


@pytest.fixture
def rules(deploy: Path) -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((deploy / "prometheus" / "alerts.yaml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_every_alert_has_a_runbook_that_says_what_to_do(
    repository: Path, rules: list[dict[str, Any]]
) -> None:
    page = (repository / "docs" / "alerts.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n\n(.+?)(?=^##|\Z)", page, re.M | re.S))
    for rule in rules:
        name = rule["alert"]
        assert rule["annotations"]["runbook_url"] == f"{DOCS}/alerts.md#{name.lower()}"
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]
        assert "`" in sections[name], name  # a command, a query or a setting
    alerts = {name for name in sections if name.startswith("Rowlease")}
    assert alerts == {rule["alert"] for rule in rules} == set(CASES)
    assert alerts >= set(OWN_ALERTS.values())


def test_alerts_read_metrics_that_exist(rules: list[dict[str, Any]]) -> None:
    for rule in rules:
        assert metrics_in(rule["expr"]) <= KNOWN, rule["alert"]


#: What a runbook's address begins with.
DOCS = '{{ or $externalLabels.rowlease_docs "docs" }}'


def filled(text: str, labels: dict[str, str], docs: str) -> str:
    """An annotation with its labels in their places."""
    text = text.replace(DOCS, docs)
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels.get(found[1], ""), text)


def test_promtool_accepts_the_rules_and_the_configuration(deploy: Path, tmp_path: Path) -> None:
    promtool = path_of("promtool")
    folder = deploy / "prometheus"
    subprocess.run([promtool, "check", "rules", folder / "alerts.yaml"], check=True)
    subprocess.run([promtool, "check", "config", folder / "prometheus.yaml"], check=True)


def test_each_alert_fires_when_it_should_and_not_before(
    deploy: Path, rules: list[dict[str, Any]], tmp_path: Path
) -> None:
    promtool = path_of("promtool")
    tests = []
    named = {rule["alert"]: rule for rule in rules}
    for number, (alert, case) in enumerate([*CASES.items(), *MORE.values()]):
        series, quiet, at, labels = case
        rule = named[alert]
        docs = "docs" if number % 2 else "https://example.org/docs"
        external = {} if number % 2 else {"rowlease_docs": docs}
        expected = {
            "exp_labels": {**labels, **rule["labels"]},
            "exp_annotations": {
                name: filled(text, labels, docs) for name, text in rule["annotations"].items()
            },
        }
        for given, alerts in ((series, [expected]), ({**series, **quiet}, [])):
            inputs = [{"series": name, "values": values} for name, values in given.items()]
            cases = [{"eval_time": at, "alertname": alert, "exp_alerts": alerts}]
            tests.append(
                {
                    "interval": "1m",
                    "external_labels": external,
                    "input_series": inputs,
                    "alert_rule_test": cases,
                }
            )
    file = tmp_path / "tests.yaml"
    rule_files = [str(deploy / "prometheus" / "alerts.yaml")]
    file.write_text(yaml.safe_dump({"rule_files": rule_files, "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# -- Grafana -----------------------------------------------------------------------------------


@pytest.fixture
def panels(deploy: Path) -> list[dict[str, Any]]:
    dashboard = json.loads((deploy / "grafana" / "rowlease.json").read_text())
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def test_the_dashboard_shows_metrics_that_exist_and_leaves_none_out(
    panels: list[dict[str, Any]],
) -> None:
    shown = set[str]()
    for panel in panels:
        for target in panel["targets"]:
            assert metrics_in(target["expr"]) <= KNOWN, panel["title"]
            shown |= metrics_in(target["expr"])
    left_out = {f"rowlease_{name}" for name in (
        "exporter_info", "queue_paused", "worker_claimed_requests_total", "worker_live",
        "worker_draining", "worker_slots", "worker_busy_slots")}  # fmt: skip
    assert shown == KNOWN - left_out


def test_a_panel_shows_one_database(deploy: Path, panels: list[dict[str, Any]]) -> None:
    """Otherwise the queues `default` of all databases are added up."""
    dashboard = json.loads((deploy / "grafana" / "rowlease.json").read_text())
    found = {one["name"]: one for one in dashboard["templating"]["list"]}
    assert list(found) == ["datasource", "database", "queue", "kind"]
    assert not found["database"]["multi"]
    texts = [found[name]["query"]["query"] for name in ("queue", "kind")]
    texts += [target["expr"] for panel in panels for target in panel["targets"]]
    for text in texts:
        metrics = re.findall(r"\browlease_\w+", text)
        assert text.count('{database="$database"') == len(metrics) > 0, text


def test_panels_have_places_of_their_own(panels: list[dict[str, Any]]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_promtool_reads_every_expression_of_the_dashboard(
    panels: list[dict[str, Any]], tmp_path: Path
) -> None:
    promtool = path_of("promtool")
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(expressions) > 30
    rules = [
        {"record": f"a:{n}", "expr": text.replace("$__rate_interval", "1m")}
        for n, text in enumerate(expressions)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    subprocess.run([promtool, "check", "rules", file], check=True)


# -- Kubernetes --------------------------------------------------------------------------------

#: Values of the chart beside the default ones, by what they show.
VALUES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "with everything": {
        "monitoring": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "docs": "https://example.org/docs/",
        },
        "networkPolicy": {"enabled": True},
        "image": {"digest": f"sha256:{'0' * 64}", "pullSecrets": ["registry"]},
        "dashboard": {"enabled": True, "tlsSecret": "certificate"},
        "workers": {
            "default": {"autoscaling": {"enabled": True}},
            "mail": {"tasks": "app.mail", "queues": ["mail", "it's"], "args": ["--prefetch=0"]},
        },
    },
    "on SQL Server": {
        "engine": "sqlserver",
        "dashboard": {"enabled": True, "proxy": "10.0.0.2,10.0.0.3"},
        "secret": {"dashboard": "operator-dsn"},
        "workers": {"default": {"autoscaling": {"enabled": True, "maxReplicas": 3}}},
    },
}
KUBERNETES = "1.31.0"
#: Kinds of operators, whose schemas are not those of Kubernetes.
OTHERS = {"ScaledObject", "TriggerAuthentication", "PodMonitor", "ServiceMonitor", "PrometheusRule"}


@pytest.fixture(scope="module", params=VALUES)
def manifests(
    request: pytest.FixtureRequest, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """What the chart renders with some values."""
    helm = path_of("helm")
    values = tmp_path_factory.mktemp("values") / "values.yaml"
    values.write_text(yaml.safe_dump(VALUES[request.param]))
    chart = repository / "deploy" / "helm" / "rowlease"
    subprocess.run([helm, "lint", "--strict", chart, "--values", values], check=True)
    done = subprocess.run(
        [helm, "template", "queue", chart, "--values", values, "--kube-version", KUBERNETES],
        capture_output=True,
        text=True,
        check=True,
    )
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def pods(manifests: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for one in manifests:
        if "template" in one.get("spec", {}):
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]


def test_kubernetes_accepts_the_manifests(manifests: list[dict[str, Any]]) -> None:
    for one in manifests:
        if one["kind"] not in OTHERS:
            kubernetes_validate.validate(one, KUBERNETES, strict=True)


def test_alerts_link_to_the_docs_of_the_values(manifests: list[dict[str, Any]]) -> None:
    for one in manifests:
        if one["kind"] == "PrometheusRule":
            (group,) = one["spec"]["groups"]
            urls = [rule["annotations"]["runbook_url"] for rule in group["rules"]]
            assert all(url.startswith("https://example.org/docs/alerts.md#") for url in urls)


def test_pods_have_no_rights(manifests: list[dict[str, Any]]) -> None:
    assert dict(pods(manifests))
    for name, pod in pods(manifests):
        assert pod["securityContext"]["runAsNonRoot"], name
        assert not pod["automountServiceAccountToken"]
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"]
            assert not context["allowPrivilegeEscalation"]
            assert context["capabilities"] == {"drop": ["ALL"]}


def test_commands_of_pods_are_commands_of_rowlease(manifests: list[dict[str, Any]]) -> None:
    for name, pod in pods(manifests):
        for container in pod["containers"]:
            command, *arguments = (
                re.sub("=/run/tls/.+", f"={__file__}", each) for each in container["args"]
            )
            cli.commands[command].make_context(command, list(arguments))
        if command == "worker":
            (grace,) = (one for one in arguments if one.startswith("--grace="))
            least = int(grace.removeprefix("--grace=").removesuffix("s")) + 15
            assert pod["terminationGracePeriodSeconds"] > least, name
            assert container["startupProbe"]["httpGet"]["path"] == "/startup"


def test_each_part_reads_the_dsn_of_its_own_user(manifests: list[dict[str, Any]]) -> None:
    keys = {
        name: volume["secret"]["items"][0]["key"]
        for name, pod in pods(manifests)
        for volume in pod["volumes"]
        if volume["name"] == "dsn"
    }
    assert keys.pop("queue-migrate") == "owner-dsn"
    assert keys.pop("queue-exporter") == "reader-dsn"
    assert keys.pop("queue-dashboard", "reader-dsn") in ("reader-dsn", "operator-dsn")
    assert set(keys.values()) == {"worker-dsn"}


def test_the_dashboard_has_its_tokens_and_https(manifests: list[dict[str, Any]]) -> None:
    for name, pod in pods(manifests):
        if name == "queue-dashboard":
            (container,) = pod["containers"]
            given = {one["name"]: one.get("valueFrom") for one in container["env"]}
            assert {READER_TOKEN, OPERATOR_TOKEN} <= given.keys()
            assert all(
                given[each]["secretKeyRef"]["name"] == "rowlease"
                for each in (READER_TOKEN, OPERATOR_TOKEN)
            )
            options = {one.partition("=")[0] for one in container["args"][1:]}
            assert options & {"--tls-certificate", "--proxy"}
            if "--tls-certificate" in options:
                assert any(volume["name"] == "tls" for volume in pod["volumes"])


def test_a_dashboard_without_https_is_refused(deploy: Path) -> None:
    chart = deploy / "helm" / "rowlease"
    command: list[str | Path] = [path_of("helm"), "template", "queue", chart]
    command += ["--set", "dashboard.enabled=true", "--kube-version", KUBERNETES]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "set dashboard.tlsSecret, or dashboard.proxy" in done.stderr


def test_a_scaled_worker_has_no_number_of_replicas(manifests: list[dict[str, Any]]) -> None:
    deployed = {one["metadata"]["name"]: one for one in manifests if one["kind"] == "Deployment"}
    scaled = [one for one in manifests if one["kind"] == "ScaledObject"]
    for one in scaled:
        target = deployed[one["spec"]["scaleTargetRef"]["name"]]
        assert "replicas" not in target["spec"]
        assert one["spec"]["triggers"]
    names = {one["spec"]["scaleTargetRef"]["name"] for one in scaled}
    for name in deployed.keys() - names:
        assert deployed[name]["spec"]["replicas"] >= 1


@pytest.mark.parametrize("engine", ["postgresql", "sqlserver"])
def test_the_plain_manifests_are_what_the_chart_renders(deploy: Path, engine: str) -> None:
    folder = deploy / "kubernetes"
    command = [path_of("helm"), "template", "rowlease", str(deploy / "helm" / "rowlease")]
    values = folder / f"values_{engine}.yaml"
    done = subprocess.run(
        [*command, "--values", str(values), "--kube-version", KUBERNETES],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (folder / f"{engine}.yaml").read_text() == done.stdout


@pytest.mark.parametrize("engine", ["postgresql", "sqlserver"])
def test_services_set_no_options_of_pods(deploy: Path, engine: str) -> None:
    """The service rowlease-dashboard would set ROWLEASE_DASHBOARD_PORT to tcp://10.0.0.7:8642."""
    found = list(pods(list(yaml.safe_load_all((deploy / f"kubernetes/{engine}.yaml").read_text()))))
    assert len(found) == 3
    assert all(pod["enableServiceLinks"] is False for _, pod in found)


# -- a container, a host -----------------------------------------------------------------------


def test_the_image_is_built_of_what_the_context_has_and_runs_as_nobody(repository: Path) -> None:
    lines = (repository / "Dockerfile").read_text().splitlines()
    stages = [line for line in lines if line.startswith("FROM ")]
    assert len(stages) == 2
    last = "\n".join(lines[lines.index(stages[-1]) :])
    assert re.search(r"^USER 10001:10001$", last, re.M)
    assert "pip" not in last
    ignored = (repository / ".dockerignore").read_text().splitlines()
    copied = [
        name
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for name in line.split()[1:-1]
    ]
    assert copied
    for name in copied:
        assert f"!{name}" in ignored
        assert (repository / name).exists()


UNITS = ("rowlease-worker", "rowlease-exporter", "rowlease-dashboard")


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_accepts_the_units(deploy: Path, tmp_path: Path, unit: str) -> None:
    analyze = path_of("systemd-analyze")
    text = (deploy / "systemd" / f"{unit}.service").read_text()
    program = tmp_path / "rowlease"  # it checks that the program is there
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (command,) = re.findall(r"^ExecStart=(.+)$", text, re.M)
    path, name, *arguments = command.split()
    cli.commands[name].make_context(name, list(arguments))
    file = tmp_path / f"{unit}.service"
    file.write_text(text.replace(path, str(program)))
    done = subprocess.run([analyze, "verify", file], capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit in line]) == (0, [])


#: What a unit gives away of 10, as systemd counts it.
EXPOSURE = 1.9


@pytest.mark.parametrize("unit", UNITS)
def test_units_have_few_rights(deploy: Path, unit: str) -> None:
    file = deploy / "systemd" / f"{unit}.service"
    command = [path_of("systemd-analyze"), "security", "--offline=yes"]
    limit = f"--threshold={EXPOSURE * 10:.0f}"
    done = subprocess.run([*command, limit, file], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
