"""Search the schedules of workers, a producer, a network and a database for a broken promise.

    python -m tests.search [--seed 1] [--steps 10000000]

The real worker and the real client run in simulated time, so a schedule that breaks something is
repeated by its number: `python -m tests.search --seed NUMBER --steps 1`.
"""

from __future__ import annotations

import argparse
import sys

from tests.search.episode import Episode


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="the number of the first schedule")
    parser.add_argument("--steps", type=int, default=10_000_000)
    parser.add_argument("--bug", default="", help="what the database does wrong; see tests/search")
    given = parser.parse_args()
    steps, seed, num_broken = 0, given.seed, 0
    while steps < given.steps:
        episode = Episode(seed, given.bug)
        broken = episode.run()
        steps += episode.world.steps
        if broken:
            num_broken += 1
            sys.stdout.write(f"schedule {seed}, with {episode.faults}:\n")
            sys.stdout.writelines(f"  {one}\n" for one in broken)
        seed += 1
        if broken or seed % 1000 == 0 or steps >= given.steps:
            sys.stdout.write(
                f"{seed - given.seed:,} schedules, {steps:,} steps: {num_broken} broken\n"
            )
            sys.stdout.flush()
    return int(num_broken > 0)


if __name__ == "__main__":
    raise SystemExit(main())
