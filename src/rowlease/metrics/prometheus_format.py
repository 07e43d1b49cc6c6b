"""Writes the metrics of workers in the format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder

from rowlease.metrics.tally import BUCKETS, Tally
from rowlease.metrics.worker_metrics import METRICS
from rowlease.visible import visible


def worker_exposition(
    tally: Tally, gauges: Mapping[str, float], accept: str, database: str | None = None
) -> tuple[str, bytes]:
    """The content type and the body of an answer to a scrape.

    Args:
        gauges: the values of gauges, by the last part of their name.
        accept: the header Accept of the scrape; empty means Prometheus' plain text.
        database: the value of the label `database` of each metric; None means that it has none.
    """
    encode, content_type = choose_encoder(accept)
    return content_type, encode(Collected(tally, gauges, database))


def labelled(families: Iterable[Any], database: str | None) -> Iterator[Any]:
    """The families, with the label `database`.

    Each hidden character of a label is written as an escape.
    """
    common = {} if database is None else {"database": database}
    for family in families:
        family.samples = [
            sample._replace(
                labels={key: visible(text) for key, text in (common | sample.labels).items()}
            )
            for sample in family.samples
        ]
        yield family


class Collected:
    """The metrics of one moment, in the form that prometheus_client encodes."""

    def __init__(self, tally: Tally, gauges: Mapping[str, float], database: str | None) -> None:
        self._tally = tally
        self._gauges = gauges
        self._database = database

    def collect(self) -> Iterator[Any]:
        """The metric families."""
        yield from labelled(self._families(), self._database)

    def _families(self) -> Iterator[Any]:
        for name, value in self._gauges.items():
            documentation = f"{name.replace('_', ' ').capitalize()} of this worker process"
            yield GaugeMetricFamily(f"rowlease_worker_{name}", documentation, value=value)
        families: dict[str, Any] = {}
        for name, (documentation, labels) in METRICS.items():
            kind = HistogramMetricFamily if name.endswith("_seconds") else CounterMetricFamily
            families[name] = kind(name, documentation, labels=labels)
        counts, durations = self._tally.as_json()
        # Counters without labels are there from the start, so that a first increase is seen.
        counted = {name for name, _, _ in counts}
        for name, (_, labels) in METRICS.items():
            if not labels and name not in counted:
                families[name].add_metric((), 0)
        for name, values, number in counts:
            families[name].add_metric(values, number)
        for name, values, numbers in durations:
            limits = [*map(repr, map(float, BUCKETS)), "+Inf"]
            buckets = list(zip(limits, accumulate(numbers[:-1]), strict=True))
            families[name].add_metric(values, buckets, sum_value=numbers[-1])
        yield from families.values()
