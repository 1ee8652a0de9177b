#!/usr/bin/env python3
"""Runs every test program of a build folder, one process per suite, several at once.

    run_tests.py BUILD [--only PATTERN] [--skip ENDING,ENDING] [--jobs N] [--results FOLDER]
    run_tests.py --summary RESULTS          one line for all results below a folder
    run_tests.py --record-failure FOLDER TEXT

A suite is what GoogleTest calls one: `Parser` of TEST(Parser, ..). Suites whose name ends in Speed
run last and alone. A suite that crashes, runs past its time or runs no test has failed, and so has
a test that was skipped: nothing here can pass without having run.
"""
import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys
import time

TIME_LIMIT_S = 900


def base_name(suite):
    """The name written in the source: without instantiation prefix and type number."""
    parts = [part for part in suite.split("/") if not part.isdigit()]
    return parts[-1]


def suites_of(program):
    listing = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True,
                             timeout=TIME_LIMIT_S)
    if listing.returncode != 0:
        return None, listing.stdout + listing.stderr
    found = []
    for line in listing.stdout.splitlines():
        match = re.match(r"(\S+)\.(\s|$)", line)
        if match and not line.startswith(" "):
            found.append(match.group(1))
    return found, ""


def run_suite(program, suite, folder):
    """One record: program, suite, passed, failed tests with their texts, seconds."""
    file = folder / program.name / (suite.replace("/", ".") + ".gtest.json")
    file.parent.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    record = {"program": program.name, "suite": suite, "passed": 0, "failures": []}
    try:
        done = subprocess.run([program, f"--gtest_filter={suite}.*", f"--gtest_output=json:{file}",
                               "--gtest_brief=1"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, timeout=TIME_LIMIT_S)
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace") if late.stdout else ""
        status = f"no end after {TIME_LIMIT_S} s"
    record["seconds"] = time.monotonic() - start
    try:
        tests = [test for group in json.loads(file.read_text(errors="replace"))["testsuites"]
                 for test in group["testsuite"]]
    except (OSError, ValueError, KeyError):
        tests = []
    for test in tests:
        if test.get("failures"):
            record["failures"].append(test["name"])
        elif test.get("status") == "RUN" and test.get("result") == "COMPLETED":
            record["passed"] += 1
        else:
            record["failures"].append(f"{test['name']} (did not run: {test.get('result')})")
    if not tests:
        record["failures"].append(f"(no test ran; exit status {status})")
    elif status != 0 and not record["failures"]:
        record["failures"].append(f"(exit status {status} after the tests)")
    if record["failures"]:
        record["output"] = output[-8000:]
    return record


def run(arguments):
    build = pathlib.Path(arguments.build)
    folder = pathlib.Path(arguments.results or build / "results")
    subprocess.run(["rm", "-rf", folder], check=True)
    folder.mkdir(parents=True)
    programs = sorted(p for p in (build / "tests").glob("test_*") if os.access(p, os.X_OK)
                      and p.is_file())
    endings = tuple(arguments.skip.split(",")) if arguments.skip else ()
    jobs, records, left_out = [], [], 0
    for program in programs:
        suites, problem = suites_of(program)
        if suites is None:
            records.append({"program": program.name, "suite": "", "passed": 0, "seconds": 0,
                            "failures": ["(does not list its tests)"], "output": problem})
            continue
        if not suites:
            records.append({"program": program.name, "suite": "", "passed": 0, "seconds": 0,
                            "failures": ["(has no tests)"], "output": ""})
        for suite in suites:
            name = base_name(suite)
            if name.endswith(endings) if endings else False:
                left_out += 1
            elif arguments.only and not fnmatch.fnmatch(name, arguments.only):
                left_out += 1
            else:
                jobs.append((program, suite))
    if not jobs:
        records.append({"program": "", "suite": "", "passed": 0, "seconds": 0,
                        "failures": ["(no suite to run)"], "output": str(build)})

    # Long suites first, so that no core waits at the end; how long is known from the last time.
    times_file = build / "suite_times.json"
    try:
        times = json.loads(times_file.read_text())
    except (OSError, ValueError):
        times = {}
    jobs.sort(key=lambda job: -times.get(f"{job[0].name} {job[1]}", 1.0))

    def finish(record):
        records.append(record)
        times[f"{record['program']} {record['suite']}"] = round(record["seconds"], 3)
        for failure in record["failures"]:
            print(f"FAILED {record['program']} {record['suite']}.{failure}")
        if record["failures"]:
            print(record["output"], flush=True)

    alone = [job for job in jobs if base_name(job[1]).endswith("Speed")]
    together = [job for job in jobs if job not in alone]
    with concurrent.futures.ThreadPoolExecutor(max_workers=arguments.jobs) as pool:
        for done in concurrent.futures.as_completed(
                [pool.submit(run_suite, program, suite, folder) for program, suite in together]):
            finish(done.result())
    for program, suite in alone:
        finish(run_suite(program, suite, folder))

    times_file.write_text(json.dumps(times, indent=0, sort_keys=True))
    (folder / "records.json").write_text(json.dumps(records, indent=1))
    slow = sorted(records, key=lambda record: -record["seconds"])[:8]
    print("slowest: " + ", ".join(f"{r['suite']} {r['seconds']:.1f} s" for r in slow))
    passed = sum(record["passed"] for record in records)
    failed = sum(len(record["failures"]) for record in records)
    note = f" ({left_out} suites left out)" if left_out else ""
    print(f"{build}: {passed} passed, {failed} failed, {len(jobs)} suites{note}")
    return 1 if failed else 0


def summary(folder):
    passed = failed = 0
    files = sorted(pathlib.Path(folder).glob("*/records.json"))
    for file in files:
        for record in json.loads(file.read_text()):
            passed += record["passed"]
            failed += len(record["failures"])
            for failure in record["failures"]:
                print(f"FAILED {file.parent.name} {record['program']} {record['suite']} {failure}")
    if passed == 0 and failed == 0:
        failed = 1
        print("no test has run")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def record_failure(folder, text):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    record = {"program": "", "suite": "", "passed": 0, "failures": [text], "seconds": 0}
    (folder / "records.json").write_text(json.dumps([record]))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?")
    parser.add_argument("--only")
    parser.add_argument("--skip")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--results")
    parser.add_argument("--summary", metavar="FOLDER")
    parser.add_argument("--record-failure", nargs=2, metavar=("FOLDER", "TEXT"))
    arguments = parser.parse_args()
    if arguments.summary:
        return summary(arguments.summary)
    if arguments.record_failure:
        return record_failure(*arguments.record_failure)
    if not arguments.build:
        parser.error("a build folder is needed")
    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())
