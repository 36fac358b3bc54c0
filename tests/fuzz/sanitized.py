"""Feeds mutated packets and rows to the decoders and the row encoders, in extensions built with AddressSanitizer and UndefinedBehaviorSanitizer.

``make fuzz ARGS="--cases 10000000 --seed 1"``. The build is kept in build/fuzz. Findings go to build/fuzz/findings; a crash leaves its input in
build/fuzz/last_case_SEED and ends the run. Every 1000th case is compared with the reference implementation. Half of the cases are of the binlog, half of
pgoutput; ``--only`` picks one. ``ARGS="--postgres --seed 1"`` runs the property tests of PostgreSQL's extension in such a build instead, and ``ARGS="--rest --cases 20000 --seed 1"`` sends hostile and damaged requests to a worker.
"""

from __future__ import annotations

import argparse
import importlib
import mmap
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import traceback
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOME = ROOT / "build" / "fuzz"
SOURCE = ROOT / "connect-worker" / "src"
BINLOG, PGOUTPUT = "dialects/mysql/binlog", "dialects/postgres/pgoutput"
FLAGS = [
    "-g",
    "-O1",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=undefined",
    "-fno-sanitize=alignment",
]
LAST_CASE_BYTES = 1 << 20
COMPARED_EVERY = 1000
FINDINGS_MAX = 50


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from-case", type=int, default=0)
    parser.add_argument("--only", choices=("binlog", "pgoutput"), help="cases of one decoder alone")
    parser.add_argument("--postgres", action="store_true", help="the property tests of PostgreSQL's extension instead of cases")
    parser.add_argument("--rest", action="store_true", help="requests to a worker instead of cases")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--build-only", action="store_true")
    options = parser.parse_args()
    if options.inside:
        kinds = [options.only] if options.only else ["binlog", "pgoutput"]
        return max(run(kind, options.cases // len(kinds), options.seed, options.from_case) for kind in kinds)
    if options.rest:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            "0",
            "-m",
            "long",
            str(ROOT / "tests" / "worker" / "rest" / "test_hostile.py"),
        ]
        variables = {"DBLOG_FUZZ_CASES": str(options.cases), "DBLOG_FUZZ_SEED": str(options.seed)}
        return subprocess.run(command, env={**os.environ, **variables}, cwd=ROOT, check=False).returncode
    build()
    if options.build_only:
        return 0
    if options.postgres:
        tests = ROOT / "tests" / "worker" / PGOUTPUT
        paths = f"pythonpath={HOME / 'src'} tests docker"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-o", paths, f"--hypothesis-seed={options.seed}", str(tests)]
        return subprocess.run(command, env={**environment(), "PYTHONMALLOC": "malloc"}, cwd=ROOT, check=False).returncode
    return subprocess.run([sys.executable, __file__, "--inside", *sys.argv[1:]], env=environment(), check=False).returncode


def build() -> None:
    """The package with sanitized extensions, made again when the sources are newer."""
    package = HOME / "src" / "dblog"
    name = f"_fast{sysconfig.get_config_var('EXT_SUFFIX')}"
    sources = [
        path
        for pattern in ("*.pyx", "*.pxi", "*.h")
        for folder in (BINLOG, PGOUTPUT, "codecs")
        for path in (SOURCE / "dblog" / folder).glob(pattern)
    ]
    changed_at = max(path.stat().st_mtime for path in sources)
    extensions = {folder: package / folder / name for folder in (BINLOG, PGOUTPUT)}
    kept = {folder: path.read_bytes() for folder, path in extensions.items() if path.exists() and path.stat().st_mtime > changed_at}
    shutil.rmtree(HOME / "src", ignore_errors=True)
    shutil.copytree(SOURCE / "dblog", package, ignore=shutil.ignore_patterns("__pycache__", "_fast*.so", "_fast*.c"))
    for folder, extension in extensions.items():
        if folder in kept:
            extension.write_bytes(kept[folder])
            continue
        code = HOME / "_fast.c"
        subprocess.run(
            [sys.executable, "-m", "cython", "-3", str(SOURCE / "dblog" / folder / "_fast.pyx"), "-o", str(code)], check=True, cwd=SOURCE
        )
        include = [f"-I{sysconfig.get_path('include')}", f"-I{SOURCE / 'dblog' / folder}"]
        command = ["gcc", "-shared", "-fPIC", "-w", "-fwrapv", *FLAGS, *include, str(code), "-o", str(extension)]
        subprocess.run(command, check=True)


def environment() -> dict[str, str]:
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout.strip()
    return {
        **os.environ,
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:quarantine_size_mb=16",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONPATH": os.pathsep.join([str(HOME / "src"), str(Path(__file__).parents[1])]),
    }


def run(kind: str, cases: int, seed: int, first: int) -> int:
    """The cases of one decoder, in this process."""
    cases_of, package = {
        "binlog": ("fuzz.cases:Fuzzer", "mysql.binlog"),
        "pgoutput": ("fuzz.pgoutput_cases:PostgresFuzzer", "postgres.pgoutput"),
    }[kind]
    _fast = importlib.import_module(f"dblog.dialects.{package}._fast")
    module, _, name = cases_of.partition(":")
    made = getattr(importlib.import_module(module), name)
    assert str(HOME) in str(_fast.__file__), f"the sanitized extension is not the one in use: {_fast.__file__}"
    findings = HOME / "findings"
    findings.mkdir(parents=True, exist_ok=True)
    kept = HOME / f"last_case_{seed}"
    kept.write_bytes(bytes(LAST_CASE_BYTES))
    with kept.open("r+b") as file, mmap.mmap(file.fileno(), LAST_CASE_BYTES) as last:

        def keep(raw: bytes) -> None:
            last[:4] = len(raw).to_bytes(4, "little")
            last[4 : 4 + len(raw)] = raw[: LAST_CASE_BYTES - 4]

        fuzzer = made(seed, keep=keep)
        started = logged_s = time.monotonic()
        found = 0
        for number in range(first, first + cases):
            try:
                fuzzer.run(number, compare=number % COMPARED_EVERY == 0)
            except Exception:  # noqa: BLE001 - whatever dblog does not raise on purpose is a finding
                found += 1
                (findings / f"{kind}-{seed}-{number}.txt").write_text(traceback.format_exc())
                print(f"finding: {kind} case {number}: {traceback.format_exc(limit=-2)}", flush=True)
                if found >= FINDINGS_MAX:
                    break
            if time.monotonic() - logged_s > 30:
                logged_s = time.monotonic()
                print(f"{number + 1 - first} cases, {found} findings, {logged_s - started:.0f} s", flush=True)
    print(f"{kind}: {number + 1 - first} cases, seed {seed}, {found} findings, {time.monotonic() - started:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
