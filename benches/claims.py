#!/usr/bin/env python3
"""Measures idem.claim_key against the same work on a plain table with PRIMARY KEY (account_id, key).

    python3 benches/claims.py [--rows 1000000] [--seconds 20] [--rounds 5] [--days 3 8] [--bin DIR]

A server of its own, without fsync, since the disk is not the question; 8 clients, prepared statements, one claim a
transaction, nine new keys to one replay. The variants take turns, and each round gives one ratio, so that a machine
with other work moves both sides of it. Server CPU is that of the backends, read from their parent when they have ended.
Targets at 8 live days of 1 M rows: 0.85 of the plain table's claims/s and 1.6 times its CPU; on the fast path (UUIDv7)
0.95 and 1.2 times.
"""
import argparse
import glob
import os
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CLIENTS = 8

PLAIN = """
CREATE SCHEMA plain;
CREATE TABLE plain.keys (LIKE idem.idempotency_keys INCLUDING DEFAULTS INCLUDING CONSTRAINTS) WITH (fillfactor = 80);
ALTER TABLE plain.keys ADD PRIMARY KEY (account_id, key);
CREATE INDEX ON plain.keys (next_attempt_at) WHERE status IN ('in_progress', 'failed');
CREATE INDEX ON plain.keys (escalated_at) WHERE status = 'needs_review';
CREATE INDEX ON plain.keys (expires_at) WHERE expires_at IS NOT NULL;
CREATE FUNCTION plain.claim_key(account text, key text, endpoint text, request_hash bytea,
                                ttl interval DEFAULT '72 hours', lease interval DEFAULT '60 seconds')
    RETURNS idem.claim LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    answer    idem.claim;
    at        timestamptz := clock_timestamp();
    found_row record;
BEGIN
    answer.outcome := 'claimed';
    answer.lease_id := gen_random_uuid();
    answer.lease_epoch := 1;
    answer.locked_until := at + lease;
    answer.created_at := at;
    INSERT INTO plain.keys AS k (day, account_id, key, endpoint, request_hash, lease_id, locked_until, lease_epoch,
                                 next_attempt_at, ttl, created_at)
    VALUES ((at AT TIME ZONE 'UTC')::date, claim_key.account, claim_key.key, claim_key.endpoint, claim_key.request_hash,
            answer.lease_id, answer.locked_until, 1, answer.locked_until, claim_key.ttl, at)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        RETURN answer;
    END IF;
    SELECT k.status, k.endpoint, k.request_hash, k.locked_until, k.expires_at, k.created_at INTO found_row
      FROM plain.keys k WHERE k.account_id = claim_key.account AND k.key = claim_key.key FOR UPDATE;
    IF found_row.endpoint <> claim_key.endpoint OR found_row.request_hash <> claim_key.request_hash
       OR found_row.status <> 'completed' OR found_row.expires_at <= at THEN
        RAISE EXCEPTION 'not a replay: this benchmark does not come here';
    END IF;
    answer.outcome := 'replay';
    answer.lease_id := NULL;
    UPDATE plain.keys k SET replays = k.replays + 1, last_replay_at = at
     WHERE k.account_id = claim_key.account AND k.key = claim_key.key
    RETURNING k.response_code, k.response_headers, k.response_body
         INTO answer.response_code, answer.response_headers, answer.response_body;
    RETURN answer;
END
$$;
UPDATE idem.settings SET uuidv7_since = '{"fast": "-infinity"}';
"""

# A finished key, as the night before left it. The order of the hashes is the order of the inserts in real life: none.
ROW = """
INSERT INTO {table} (day, account_id, key, endpoint, request_hash, status, recovery_point, next_attempt_at, response_code,
                     response_body, ttl, created_at, completed_at, expires_at)
SELECT d, 'acct_' || n % 1000, md5(d::text || n), 'POST /v1/payments', sha256('x'), 'completed', 'done', now(), 201,
       convert_to('{{"charge":"ch_' || n || '","status":"succeeded"}}', 'UTF8'), '72 hours', now(), now(),
       now() + interval '72 hours'
  FROM (SELECT (now() AT TIME ZONE 'UTC')::date - {age} AS d) day, generate_series(1, {rows}) n
"""

ONE_DAY = """
DO $$
DECLARE
    day   date := (now() AT TIME ZONE 'UTC')::date - {age};
    child text := 'idempotency_keys_y' || to_char(day, 'YYYY"m"MM"d"DD');
BEGIN
    EXECUTE format('CREATE TABLE idem.%I (LIKE idem.idempotency_keys INCLUDING ALL) WITH (fillfactor = 80)', child);
    EXECUTE format('ALTER TABLE idem.idempotency_keys ATTACH PARTITION idem.%I FOR VALUES FROM (%L) TO (%L)',
                   child, day, day + 1);
END $$
"""

SCRIPT = """
\\set kind random(1, 10)
\\set age random(0, {last_age})
\\set n random(1, {rows})
\\set a random(0, 999)
\\if :kind = 1
SELECT outcome FROM {schema}.claim_key('acct_' || :n::integer % 1000,
    md5(((now() AT TIME ZONE 'UTC')::date - :age::integer)::text || :n::integer), 'POST /v1/payments', sha256('x'));
\\else
SELECT outcome FROM {schema}.claim_key('acct_' || :a::integer, {key}, '{endpoint}', sha256('x'));
\\endif
"""

# Old clients send random UUIDs; the fast path is for UUIDv7, which also suit an index better.
V4 = "gen_random_uuid()::text"
V7 = """overlay(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') PLACING '-' FROM 9 FOR 0)
        || '-7' || substr(gen_random_uuid()::text, 16)"""

# Name: what runs, and which one it is compared with.
VARIANTS = {
    "plain": ({"schema": "plain", "endpoint": "POST /v1/payments", "key": V4}, "plain"),
    "claim_key": ({"schema": "idem", "endpoint": "POST /v1/payments", "key": V4}, "plain"),
    "plain v7": ({"schema": "plain", "endpoint": "fast", "key": V7}, "plain v7"),
    "fast path": ({"schema": "idem", "endpoint": "fast", "key": V7}, "plain v7"),
}


def title(pid):
    """What a process says it does; empty when it has ended and nobody has noticed yet."""
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read()
    except FileNotFoundError:
        return "buried"


class Server:
    def __init__(self, binaries, folder):
        self.binaries, self.folder = binaries, folder
        # PostgreSQL refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            os.chown(folder, pwd.getpwnam(self.user).pw_uid, -1)
        self.run("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.run("pg_ctl", "-D", f"{folder}/data", "-l", f"{folder}/log", "-w", "-o",
                 f"-c listen_addresses= -k {folder} -c fsync=off -c shared_buffers=1GB -c max_wal_size=8GB "
                 "-c checkpoint_timeout=1h -c autovacuum=off", "start")
        with open(f"{folder}/data/postmaster.pid") as file:
            self.pid = int(file.readline())

    def run(self, program, *arguments, text=None):
        own = os.path.join(self.binaries, program)
        # The client programs may come from another package than the server.
        found = own if os.path.exists(own) else shutil.which(program)
        done = subprocess.run([found or program, *arguments], user=self.user, input=text, text=True, cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            sys.exit(f"{program} ended with {done.returncode}:\n{done.stdout}")
        return done.stdout

    def sql(self, text, *options):
        return self.run("psql", "-XAtq", "-h", self.folder, "-U", "postgres", "-v", "ON_ERROR_STOP=1", *options, text=text)

    def children_cpu_s(self):
        """User and system seconds of the backends that have ended."""
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    def wait_for_clients(self):
        """Until the last backend has been buried by its parent: its CPU counts from then on."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with open(f"/proc/{self.pid}/task/{self.pid}/children") as file:
                titles = [title(child) for child in file.read().split()]
            if not any(name == "" or "[local]" in name for name in titles):
                return
            time.sleep(0.02)
        sys.exit("the backends of the last measurement do not end")

    def stop(self):
        self.run("pg_ctl", "-D", f"{self.folder}/data", "-m", "immediate", "stop")


def measured(server, script, seconds):
    """Claims/s, p99 in ms and server CPU in microseconds a claim."""
    for old in glob.glob(f"{server.folder}/pgbench_log*"):
        os.remove(old)
    before = server.children_cpu_s()
    server.run("pgbench", "-n", "-h", server.folder, "-U", "postgres", "-M", "prepared", "-c", str(CLIENTS), "-j", "2",
               "-T", str(seconds), "-l", "-f", script, "postgres")
    server.wait_for_clients()
    cpu = server.children_cpu_s() - before
    latencies = []
    for log in glob.glob(f"{server.folder}/pgbench_log*"):
        with open(log) as file:
            latencies.extend(int(line.split()[2]) for line in file)
    latencies.sort()
    return len(latencies) / seconds, latencies[len(latencies) * 99 // 100] / 1000, cpu * 1e6 / len(latencies)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000, help="a day")
    arguments.add_argument("--seconds", type=int, default=20, help="of each measurement")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--days", type=int, nargs="+", default=[3, 8])
    arguments.add_argument("--bin", default="/usr/lib/postgresql/15/bin")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="idem-bench-") as folder:
        server = Server(given.bin, folder)
        try:
            files = sorted(glob.glob(f"{ROOT}/migrations/*.sql"))
            server.sql("CREATE SCHEMA idem;\nCREATE TABLE idem.schema_migrations ();\n"
                       + "\n".join(open(file).read() for file in files) + PLAIN, "-1")
            print(server.sql("SELECT version()").strip())
            filled = 0
            for days in sorted(given.days):
                for age in range(filled, days):
                    if age > 0:
                        server.sql(ONE_DAY.format(age=age))
                    for table in ("idem.idempotency_keys", "plain.keys"):
                        server.sql(ROW.format(table=table, age=age, rows=given.rows))
                filled = days
                server.sql("VACUUM ANALYZE")
                server.sql("CHECKPOINT")
                compare(server, given, days)
        finally:
            server.stop()


def compare(server, given, days):
    scripts = {}
    for name, (variant, _) in VARIANTS.items():
        scripts[name] = f"{server.folder}/{name.replace(' ', '_')}.sql"
        with open(scripts[name], "w") as file:
            file.write(SCRIPT.format(last_age=days - 1, rows=given.rows, **variant))
    results = {name: [] for name in VARIANTS}
    for name in VARIANTS:
        measured(server, scripts[name], 2)
    for number in range(given.rounds):
        order = list(VARIANTS) if number % 2 == 0 else list(VARIANTS)[::-1]
        for name in order:
            results[name].append(measured(server, scripts[name], given.seconds))
    print(f"\n{days} live days of {given.rows} rows, {CLIENTS} clients, median of {given.rounds} rounds")
    print("%-10s %9s %8s %7s   ratios to plain: %9s %6s %6s" % ("", "claims/s", "p99 ms", "CPU us", "claims/s", "p99", "CPU"))
    for name, found in results.items():
        middle = [statistics.median(values) for values in zip(*found)]
        ratios = [statistics.median(ours / plain for ours, plain in zip(values, base))
                  for values, base in zip(zip(*found), zip(*results[VARIANTS[name][1]]))]
        print("%-10s %9.0f %8.2f %7.0f                    %9.2f %6.2f %6.2f" % (name, *middle, *ratios), flush=True)


main()
