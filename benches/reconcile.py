#!/usr/bin/env python3
"""Measures `reconcile --local` on generated files and compares every break with the truth.

    python3 benches/reconcile.py [--rows 1000000] [--order shuffled|time]

Prints wall time, CPU seconds (user + system) and peak resident memory of the one process, beside the same
figures of `wc -l` over both files, so that a noisy machine can be told from a slow program.
Ends non-zero when a break is missing, invented or of another kind.
"""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def measured(command, out):
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=out)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begin
    return process.returncode, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--order", choices=["shuffled", "time"], default="shuffled")
    given = arguments.parse_args()
    subprocess.check_call(["cargo", "build", "--release", "--locked", "--bin", "idem-jobs", "--example", "recon_gen"],
                          cwd=ROOT)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.check_call([f"{ROOT}/target/release/examples/recon_gen", "--rows", str(given.rows),
                               "--order", given.order, "--exponents", "--out", folder])
        files = [f"{folder}/provider.csv", f"{folder}/local.csv"]
        print("%-28s %8s %8s %9s" % ("", "wall s", "CPU s", "peak MiB"))
        _, wall, cpu, memory = measured(["wc", "-l", *files], subprocess.DEVNULL)
        print("%-28s %8.2f %8.2f %9.0f" % ("wc -l of both files", wall, cpu, memory))
        result = f"{folder}/result.json"
        with open(result, "w") as out:
            code, wall, cpu, memory = measured(
                [f"{ROOT}/target/release/idem-jobs", "reconcile", "--report", files[0], "--local", files[1],
                 "--as-of", "2026-06-01T00:00:00Z", "--output", "json", "--dry-run"], out)
        print("%-28s %8.2f %8.2f %9.0f" % (f"reconcile {given.rows} rows", wall, cpu, memory))
        if code != 0:
            sys.exit(f"reconcile ended with {code}")
        with open(result) as file:
            found = {(m["kind"], m["reference"]) for m in json.load(file)["mismatches"]}
        with open(f"{folder}/truth.csv") as file:
            planted = {(row["kind"], row["merchant_reference"]) for row in csv.DictReader(file)}
        print(f"planted {len(planted)}, found {len(found)}, missed {len(planted - found)}, "
              f"invented {len(found - planted)}")
        if planted != found:
            sys.exit(f"differ, for example: {sorted(planted ^ found)[:5]}")


if __name__ == "__main__":
    main()
