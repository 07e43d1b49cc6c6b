"""Metrics for Prometheus: of a database (`exporter`), and of workers (`worker_metrics`).

`tally` holds what workers count, and `prometheus_format` writes it. Only `exporter` and
`prometheus_format` need the package prometheus_client (`rowlease[metrics]`).
"""
