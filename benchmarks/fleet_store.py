"""What the server of a fleet's store does for a command: a million runs of 200 hosts in PostgreSQL.

    python benchmarks/fleet_store.py --url postgresql://… [--runs N] [--hosts N]

The database is empty before. A fifth of the runs comes from the program's own writer (see growth.py: a night is an
experiment of five blocks of two versions on every host, one scenario), the rest from the server, which copies them
four times under later versions and years. Then some commands run in turn, and the time that the server was busy with
each is printed (`active_time` of pg_stat_database, so that nobody else may use the database).
"""

import argparse
import subprocess
import sys
import time

import psycopg
from growth import BLOCKS, in_a_process, testbed_name, version_name

COPIES = 4
TIMES = "replace(replace({0}, '2020', (2020 + k)::text), '02-29', '02-28')"
COPY = f"""
CREATE TEMP TABLE own AS SELECT (SELECT max(id) FROM build) AS b, (SELECT max(id) FROM run) AS r,
  (SELECT max(id) FROM trial) AS t;
INSERT INTO build SELECT id + k * b, split_part(number, 'dev', 1) || 'dev' ||
  (split_part(number, 'dev', 2)::int + k * 10000), commit_id, variant
  FROM build, own, generate_series(1, {COPIES}) AS k;
INSERT INTO holding SELECT build_id + k * b, testbed_id, suite_id, runs, trials, scenarios,
  {TIMES.format("first_time")}, {TIMES.format("last_time")} FROM holding, own, generate_series(1, {COPIES}) AS k;
INSERT INTO run SELECT id + k * r, build_id + k * b, testbed_id, suite_id, label, {TIMES.format("started")},
  conditions, libraries, metrics, measured FROM run, own, generate_series(1, {COPIES}) AS k;
INSERT INTO trial SELECT id + k * t, run_id + k * r, scenario, ordinal, completed, failed, duration,
  {TIMES.format("started")}, conditions, workload, metrics, counted, md5(numbers || k), server_metrics
  FROM trial, own, generate_series(1, {COPIES}) AS k;
INSERT INTO source SELECT trial_id + k * t, md5(sha256 || k) || md5(k || sha256), position, path, format, tool,
  client_version, command, imported_at FROM source, own, generate_series(1, {COPIES}) AS k
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", required=True, help="an empty PostgreSQL database, by a role that owns it")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=200)
    arguments = parser.parse_args()
    nights = max(2, arguments.runs // (2 * BLOCKS * arguments.hosts * (COPIES + 1)))
    in_a_process(arguments.url, 1, nights + 1, 1, arguments.hosts)
    with psycopg.connect(arguments.url) as connection:
        for statement in COPY.split(";\n"):
            connection.execute(statement)
    with psycopg.connect(arguments.url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        runs, size = connection.execute(
            "SELECT (SELECT count(*) FROM run), pg_size_pretty(pg_database_size(current_database()))"
        ).fetchone() or (0, "")
    host = testbed_name(min(7, arguments.hosts - 1))
    print(f"{runs:,} runs of {arguments.hosts} hosts, {5 * (nights + 1):,} versions, {size}\n")
    print("| command | busy, ms |\n| --- | --- |")
    for words in (
        ("compare", version_name(nights - 1), version_name(nights), "--testbed", host, "--no-keep", "--report-only"),
        ("baseline", "list"),
        ("history", "--testbed", host),
        ("db", "log"),
        ("db", "prune", "--older-than", "900d", "--dry-run"),
        ("db", "info"),
    ):
        before = busy(arguments.url)
        command = [sys.executable, "-m", "regress_gate", *words, "--store", arguments.url]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(f"| `{' '.join(words)}` | {busy(arguments.url) - before:,.0f} |", flush=True)
    return 0


def busy(url: str) -> float:
    """Milliseconds. A connection adds its own when it ends."""
    time.sleep(2)
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT active_time FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    return float(row[0]) if row else 0.0


if __name__ == "__main__":
    sys.exit(main())
