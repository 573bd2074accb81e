#!/usr/bin/env python3
"""Insert latency while a large day is removed and days are made, beside a reader that stays open.

    python3 benches/partitions.py [--rows 2000000] [--reader-seconds 10] [--rate 1000]

Starts a PostgreSQL of its own, puts an open load of inserts through the parent (pgbench, 8 clients, latency counted
from when each insert was due), opens a transaction that has read today's partition, and runs one operation. The same
load and the same data for each operation, so that the ratios of one run mean something on any machine.
pg_partman takes part where its extension is installed (Debian: postgresql-15-partman).
"""
import argparse
import glob
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

TABLE = """
CREATE SCHEMA shop;
CREATE TABLE shop.events (id bigint NOT NULL, created_at timestamptz NOT NULL, payload text, PRIMARY KEY (id, created_at))
    PARTITION BY RANGE (created_at);
CREATE SEQUENCE shop.event_id CACHE 100;
"""
FILL = """
INSERT INTO shop.events SELECT n, date_trunc('day', now()) - interval '10 days' + n * interval '1 ms', repeat('x', 250)
  FROM generate_series(1, {rows}) n;
CHECKPOINT;
"""
INSERT = "INSERT INTO shop.events VALUES (nextval('shop.event_id'), now(), repeat('x', 250));\n"


def day_sql(offset, options="PARTITION OF"):
    """Makes one day; by `PARTITION OF` unless told otherwise."""
    return f"""DO $$ DECLARE d date := (now() AT TIME ZONE 'UTC')::date + {offset}; BEGIN
        EXECUTE format('CREATE TABLE shop.%I {options} shop.events FOR VALUES FROM (%L) TO (%L)',
                       'events_' || to_char(d, '"y"YYYY"m"MM"d"DD'), d || ' 00:00+00', d + 1 || ' 00:00+00');
        EXECUTE format('COMMENT ON TABLE shop.%I IS %L', 'events_' || to_char(d, '"y"YYYY"m"MM"d"DD'),
                       'idem-jobs partition'); END $$;"""


class Server:
    """A private server; as the user postgres when root starts it."""

    def __init__(self, folder, binaries):
        self.folder, self.binaries = folder, binaries
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            shutil.chown(folder, self.user)
        self.as_user([f"{binaries}/initdb", "-D", f"{folder}/data", "-A", "trust", "-U", "postgres", "--no-sync"])
        self.as_user([f"{binaries}/pg_ctl", "-D", f"{folder}/data", "-w", "-l", f"{folder}/log", "-o",
                      f"-c listen_addresses='' -k {folder} -c fsync=off -c shared_buffers=512MB -c max_wal_size=4GB "
                      "-c timezone=UTC", "start"])

    def as_user(self, command):
        prefix = ["runuser", "-u", self.user, "--"] if os.getuid() == 0 else []
        subprocess.run(prefix + command, check=True, stdout=subprocess.DEVNULL, cwd=self.folder)

    def stop(self):
        self.as_user([f"{self.binaries}/pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "stop"])

    def psql(self, database, sql, **more):
        return subprocess.run(["psql", "-h", self.folder, "-U", "postgres", "-d", database, "-v", "ON_ERROR_STOP=1",
                               "-qAtc", sql], check=True, text=True, stdout=subprocess.PIPE, **more).stdout.strip()

    def url(self, database):
        return f"postgres://postgres@localhost/{database}?host={self.folder.replace('/', '%2F')}&sslmode=disable"


def percentile(sorted_values, share):
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * share))]


def measure(server, database, operation, given):
    """Runs the load, the reader and the operation; gives p50, p99 and the longest in ms, and the operation's seconds."""
    work = tempfile.mkdtemp(dir=server.folder)
    with open(f"{work}/insert.sql", "w") as script:
        script.write(INSERT)
    seconds = given.reader_seconds + 6
    load = subprocess.Popen(["pgbench", "-h", server.folder, "-U", "postgres", "-n", "-f", f"{work}/insert.sql", "-c", "8",
                             "-j", "2", "-R", str(given.rate), "-T", str(seconds), "--log", f"--log-prefix={work}/log",
                             database], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2)
    reader = subprocess.Popen(["psql", "-h", server.folder, "-U", "postgres", "-d", database, "-q"],
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    reader.stdin.write("BEGIN; SELECT count(*) FROM shop.events WHERE created_at >= date_trunc('day', now());\n")
    reader.stdin.flush()
    time.sleep(0.5)
    begun = time.time()
    doing = operation(database)
    reader_ends = begun + given.reader_seconds - 0.5
    took = None
    while took is None or time.time() < reader_ends:
        if took is None and doing is not None and doing.poll() is not None:
            if doing.returncode != 0:
                sys.exit(f"the operation ended with {doing.returncode}")
            took = time.time() - begun
        if doing is None:
            took = 0
        if time.time() >= reader_ends and reader.poll() is None:
            reader.stdin.write("COMMIT;\n")
            reader.stdin.close()
            reader.wait()
        time.sleep(0.02)
    if reader.poll() is None:
        reader.stdin.close()
        reader.wait()
    ended = time.time()
    load.wait()
    # client, transaction, latency in us from when it was due, script, second, microsecond, lag
    latencies = []
    for name in glob.glob(f"{work}/log*"):
        with open(name) as log:
            for line in log:
                fields = line.split()
                done_at = int(fields[4]) + int(fields[5]) / 1e6
                if begun <= done_at <= max(ended, reader_ends) + 2:
                    latencies.append(int(fields[2]) / 1000)
    latencies.sort()
    shutil.rmtree(work)
    return percentile(latencies, 0.5), percentile(latencies, 0.99), latencies[-1], took


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=2_000_000)
    arguments.add_argument("--reader-seconds", type=int, default=10)
    arguments.add_argument("--rate", type=int, default=1000)
    arguments.add_argument("--bin", default="/usr/lib/postgresql/15/bin")
    given = arguments.parse_args()
    subprocess.check_call(["cargo", "build", "--locked", "--bin", "idem-jobs"], cwd=ROOT)
    program = f"{ROOT}/target/debug/idem-jobs"
    folder = tempfile.mkdtemp(prefix="idem-bench-")
    os.chmod(folder, 0o755)
    server = Server(folder, given.bin)
    config = f"{folder}/jobs.toml"
    with open(config, "w") as file:
        file.write('[[partitions.table]]\nname = "shop.events"\ncolumn = "created_at"\n')
    old = server.psql("postgres", """SELECT 'shop.events_' || to_char((now() AT TIME ZONE 'UTC')::date - 10, '"y"YYYY"m"MM"d"DD')""")

    def sql(statements):
        return lambda database: subprocess.Popen(
            ["psql", "-h", folder, "-U", "postgres", "-d", database, "-v", "ON_ERROR_STOP=1", "-q"] +
            [part for statement in statements for part in ("-c", statement)], stdout=subprocess.DEVNULL)

    def ours(*flags):
        return lambda database: subprocess.Popen([program, "partitions", "--config", config, *flags], cwd=folder,
                                                 env={**os.environ, "DATABASE_URL": server.url(database)},
                                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def idle(_):
        return None

    operations = [
        ("plain", "nothing", idle),
        ("plain", "DROP TABLE of the day", sql([f"DROP TABLE {old}"])),
        ("plain", "DETACH, then DROP", sql([f"ALTER TABLE shop.events DETACH PARTITION {old}", f"DROP TABLE {old}"])),
        ("plain", "CREATE ... PARTITION OF", sql([day_sql(1)])),
        ("plain", "idem-jobs partitions --create-only", ours("--create-only")),
        ("plain", "idem-jobs partitions", ours()),
    ]
    try:
        server.psql("postgres", "CREATE DATABASE plain")
        subprocess.run([program, "migrate"], check=True, env={**os.environ, "DATABASE_URL": server.url("plain")},
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder)
        server.psql("plain", TABLE)
        for offset in (-10, 0):
            server.psql("plain", day_sql(offset))
        server.psql("plain", FILL.format(rows=given.rows))
        if glob.glob("/usr/share/postgresql/*/extension/pg_partman.control"):
            server.psql("postgres", "CREATE DATABASE partman TEMPLATE template0")
            server.psql("partman", "CREATE SCHEMA partman; CREATE EXTENSION pg_partman SCHEMA partman")
            server.psql("partman", TABLE)
            server.psql("partman", """SELECT partman.create_parent('shop.events', 'created_at', 'native', 'daily',
                p_premake => 1, p_start_partition => (date_trunc('day', now()) - interval '10 days')::text)""")
            server.psql("partman", FILL.format(rows=given.rows))
            server.psql("partman", """UPDATE partman.part_config SET premake = 5, retention = '3 days',
                retention_keep_table = false, infinite_time_partitions = true""")
            operations.append(("partman", "pg_partman run_maintenance_proc()", sql(["CALL partman.run_maintenance_proc()"])))
        print("%-36s %10s %10s %10s %10s" % ("insert latency, ms", "p50", "p99", "max", "op, s"))
        found = {}
        for template, name, operation in operations:
            server.psql("postgres", "DROP DATABASE IF EXISTS run")
            server.psql("postgres", f"CREATE DATABASE run TEMPLATE {template}")
            found[name] = measure(server, "run", operation, given)
            print("%-36s %10.1f %10.1f %10.1f %10.1f" % (name, *found[name]), flush=True)
        ours_max = found["idem-jobs partitions"][2]
        for name, (_, _, longest, _) in found.items():
            if name not in ("nothing",) and not name.startswith("idem-jobs"):
                print(f"longest insert, {name} / idem-jobs partitions: {longest / ours_max:.0f} x")
        if ours_max > 300:
            sys.exit(f"the longest insert took {ours_max:.0f} ms; the target is 300 ms")
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
