"""Metrics for Prometheus: of a database (`exporter`), and of workers (`worker_metrics`).

`tally` holds what workers count, and `exposition` writes it in the format of Prometheus. Only
`exporter` and `exposition` need the package prometheus_client (`rowlease[metrics]`).
"""
