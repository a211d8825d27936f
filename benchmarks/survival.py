"""Kill -9 at a hundred moments, resume, and compare with the run that nothing happened to.

Each of the kills is a run of its own on scanned digits, by automatic SELC or SELC+ in turn: it is killed once, every
file in its folder is checked (whole, parses, as its manifest says), it is resumed to the end, and every result is
compared with the uninterrupted run: the same bits in one process, within 1e-6 in two. Some kills come at a random
moment, others are aimed: when a temporary file appears, when a checkpoint lies there whose manifest does not, between
stages, at the step back to the turning point, while the results are written. What was hit is read from the folder
afterwards.

One process is forked from this one, which has everything imported, and so are two that train together, with what
torchrun would tell them; some pairs are started by torchrun itself, which takes far longer than the run. Of two either
one is killed (and the other is told to end, as torchrun does) or everything at once, as by a power cut.

    python benchmarks/survival.py [--one 70] [--two 26] [--torchrun 4] [--fresh]

A line per kill goes to results/survival.jsonl, and what is there is not done again; the table to results/survival.md.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from safetensors.torch import load_file

from selc.cli import app
from selc.files import write_text
from selc.run import Config, execute, resume
from selc.run.folder import environment
from selc.train.manifest import BEFORE, NEWEST, broken_file
from selc.train.progress import Progress
from selc.train.record import read_records

RESULTS = Path(__file__).parent / "results"
METHODS = ("selc", "selc+")
EPOCHS = 20
TOLERANCE = {1: 0.0, 2: 1e-6}
AIMS = ("any", "any", "any", "tmp", "any", "manifest", "any", "stages", "tmp", "step back", "any", "results")
TIMES = ("seconds", "samples_per_second", "seconds_this_session", "seconds_training")  # of no result


class Quiet(Progress):
    def notice(self, text: str) -> None:
        pass


def config_of(method: str) -> Config:
    noise = {"name": "symmetric", "rate": 0.4}
    net = {"name": "mlp", "hidden": [64]}
    train = {"epochs": EPOCHS, "device": "cpu"}
    return Config.resolve({"data": "digits", "noise": noise, "method": {"name": method}, "net": net, "train": train})


# How a run is started, and how it is killed.


class Forked:
    """A run in one process."""

    def __init__(self, method: str, out: Path) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            _child(method, out)
        self.code: int | None = None

    def running(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is None

    def kill(self, draw: random.Random) -> str:
        os.kill(self.pid, signal.SIGKILL)
        return "the process"

    def wait(self) -> int:
        while self.running():
            time.sleep(0.005)
        assert self.code is not None
        return self.code


def _child(method: str, out: Path) -> NoReturn:
    # os._exit: a forked child must not run the parent's clean-up.
    try:
        if (out / "config.toml").exists():
            resume(out, Quiet())
        else:
            execute(config_of(method), out, Quiet())
    except BaseException as error:
        print(f"a run failed: {error!r}", file=sys.stderr)
        os._exit(1)
    os._exit(0)


def command(method: str, out: Path) -> list[str]:
    """What the command line is asked for."""
    if (out / "config.toml").exists():
        return ["resume", str(out)]
    noise = ["--noise", "symmetric", "--rate", "0.4"]
    net = ["--net", "mlp", "--set", "net.hidden=[64]", "--device", "cpu"]
    return ["train", "digits", "--method", method, *noise, *net, "--epochs", str(EPOCHS), "--out", str(out)]


class Pair:
    """A run in two processes that are forked here."""

    def __init__(self, method: str, out: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (it is read when the run is over)
        self.codes: dict[int, int] = {}
        self.pids = [self._fork(rank, port, command(method, out)) for rank in range(2)]

    def _fork(self, rank: int, port: int, arguments: list[str]) -> int:
        if pid := os.fork():
            return pid
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ |= {**where, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        os.dup2(self.log.fileno(), 1)
        os.dup2(self.log.fileno(), 2)
        code = 1
        try:
            app(arguments)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        os._exit(code)

    def running(self) -> bool:
        for pid in self.pids:
            if pid not in self.codes:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    self.codes[pid] = os.waitstatus_to_exitcode(status)
        return len(self.codes) < len(self.pids)

    def kill(self, draw: random.Random) -> str:
        if draw.random() < 0.5:
            for pid in self.pids:
                os.kill(pid, signal.SIGKILL)
            return "everything"
        rank = draw.randrange(2)
        os.kill(self.pids[rank], signal.SIGKILL)
        time.sleep(0.1)
        if self.running() and self.pids[1 - rank] not in self.codes:
            os.kill(self.pids[1 - rank], signal.SIGTERM)
        return f"process {rank}"

    def wait(self) -> int:
        for pid in self.pids:
            if pid not in self.codes:
                self.codes[pid] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self.log.seek(0)
        self.words = self.log.read().decode(errors="replace")
        return max(self.codes.values(), key=abs)


class Launched:
    """A run in two processes of torchrun."""

    def __init__(self, method: str, out: Path) -> None:
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "selc"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (it is read when the run is over)
        everything = [*launch, *command(method, out)]
        self.process = subprocess.Popen(everything, stdout=self.log, stderr=self.log, env=environment)

    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self, draw: random.Random) -> str:
        pid = self.process.pid
        ranks = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        victims, what = ([pid, *ranks], "everything") if draw.random() < 0.5 or not ranks else ([0], "")
        if not what:
            rank = draw.randrange(len(ranks))
            victims, what = [ranks[rank]], f"process {rank}"
        for victim in victims:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.wait()
        for rank in ranks:  # an orphan is init's to bury
            while _alive(rank):
                time.sleep(0.02)
        return what

    def wait(self) -> int:
        code = self.process.wait(timeout=300)
        if code > 0:
            self.log.seek(0)
            self.words = self.log.read().decode(errors="replace")
        return code


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


Run = Forked | Pair | Launched
KINDS: dict[str, type[Run]] = {"one": Forked, "two": Pair, "torchrun": Launched}


# When to kill.


def moment(aim: str, out: Path, run: Run, duration: float, draw: random.Random) -> bool:
    """Wait for the moment; False if the run was over before it came."""

    def until(there: Callable[[], bool]) -> bool:
        while not there():
            if not run.running():
                return False
            time.sleep(0.0002)
        return True

    if not isinstance(run, Forked) and not until(lambda: (out / "config.toml").exists()):  # they take long to meet
        return False
    if aim in ("any", "tmp", "manifest"):
        time.sleep(draw.uniform(0, duration * (1.0 if aim == "any" else 0.8)))
    triggers: dict[str, Callable[[], bool]] = {
        "any": lambda: True,
        "tmp": lambda: any(out.glob("stage-*/.*.tmp")),
        "manifest": lambda: any(_unnamed(out)),
        "stages": lambda: _finished(out / "stage-0"),
        "step back": lambda: (out / "stage-1" / "records").exists(),
        "results": lambda: any(out.glob("*model.safetensors*")),
    }
    if not until(triggers[aim]):
        return False
    time.sleep(draw.uniform(0, 0.003))
    return run.running()


def _unnamed(out: Path) -> Iterator[Path]:
    """Files of checkpoints that no manifest names yet."""
    for stage in out.glob("stage-*"):
        named: set[str] = set()
        for name in (NEWEST, BEFORE):
            if (stage / name).exists():
                named |= json.loads((stage / name).read_text())["files"].keys()
        yield from (path for path in stage.glob("[so]*.safetensors") if path.name not in named)


def _finished(stage: Path) -> bool:
    return (stage / NEWEST).exists() and bool(json.loads((stage / NEWEST).read_text())["finished"])


def what_was_hit(out: Path) -> str:
    """What the run was doing, by what it left behind."""
    if not (out / "config.toml").exists():
        return "before the run"
    if any(out.glob("stage-*/.*.tmp")) or any(out.glob("stage-*/snapshots/.*.tmp")):
        return "saving: a file half written"
    if any(_unnamed(out)):
        return "saving: files without their manifest"
    if any(out.glob("*model.safetensors*")):
        return "writing results"
    stages = sorted(out.glob("stage-*"))
    if stages and not (stages[-1] / NEWEST).exists():
        return "first epoch" if stages[-1].name == "stage-0" else f"beginning of {stages[-1].name}"
    if stages and _finished(stages[-1]):
        return "between stages"
    return "training"


# What is looked at.


def check_files(out: Path) -> int:
    """Fail if a file is not whole; how many were looked at."""
    files = [path for path in out.rglob("*") if path.is_file() and not path.name.endswith(".tmp")]
    for path in files:
        text = path.read_bytes()
        if path.suffix == ".json":
            json.loads(text)
        elif path.suffix == ".jsonl":
            assert text.endswith(b"\n"), path
            [json.loads(line) for line in text.splitlines()]
        elif path.suffix == ".toml":
            tomllib.loads(text.decode())
        elif path.suffix == ".csv":
            rows = list(csv.reader(io.StringIO(text.decode())))
            assert len({len(row) for row in rows}) == 1, path
        elif path.suffix == ".npz":
            np.load(io.BytesIO(text), allow_pickle=False)["given"]
        elif path.suffix == ".safetensors":
            load_file(path)
    for stage in out.glob("stage-*"):
        if not (stage / NEWEST).exists():
            continue
        manifest = json.loads((stage / NEWEST).read_text())
        assert not (problem := broken_file(stage, manifest["files"].items())), problem
        given = np.load(out / "noise.npz", allow_pickle=False)
        epochs = manifest["history"][-1]["epoch"] + 1
        read_records(stage / "records", epochs, len(given["given"]), len(given["classes"]))
    return len(files)


def difference(whole: Path, ours: Path, exact: bool) -> float:
    """The largest difference of any number in the results; fail where they differ in anything else."""
    largest = 0.0

    def close(a: Any, b: Any, where: str) -> None:
        nonlocal largest
        if isinstance(a, dict):
            assert a.keys() == b.keys(), where
            for key in a.keys() - set(TIMES):
                close(a[key], b[key], f"{where}/{key}")
        elif isinstance(a, list):
            assert len(a) == len(b), where
            for x, y in zip(a, b, strict=True):
                close(x, y, where)
        elif isinstance(a, float):
            largest = max(largest, abs(a - b))
        else:
            assert a == b, f"{where}: {a} and {b}"

    names = {str(p.relative_to(whole)) for p in whole.rglob("*") if p.is_file()}
    assert names == {str(p.relative_to(ours)) for p in ours.rglob("*") if p.is_file()}, "other files"
    for name in sorted(names):
        a, b = whole / name, ours / name
        if name.startswith("stage-") and name.endswith("safetensors") and not exact:
            continue  # the same values as those of the results, and written in a process of their own
        if name.endswith(".safetensors"):
            left, right = load_file(a), load_file(b)
            assert left.keys() == right.keys(), name
            for key, tensor in left.items():
                apart = (tensor.double() - right[key].double()).abs()
                largest = max(largest, float(apart.nan_to_num(0.0).max())) if tensor.numel() else largest
        elif name == "metrics.jsonl":
            left_lines, right_lines = ([json.loads(line) for line in p.read_text().splitlines()] for p in (a, b))
            close(left_lines, right_lines, name)
        elif name == "summary.json":
            close(json.loads(a.read_text()), json.loads(b.read_text()), name)
        elif name in ("corrected_labels.csv", "label_issues.csv"):
            columns = [list(zip(*csv.reader(io.StringIO(p.read_text())), strict=True)) for p in (a, b)]
            for mine, other in zip(*columns, strict=True):
                numbers = mine[0] in ("confidence", "label_quality", "suggested_confidence")
                assert mine == other or (numbers and not exact), f"{name}: {mine[0]}"
        elif exact and not name.endswith(".json"):
            assert a.read_bytes() == b.read_bytes(), name
    return largest


# The benchmark.


def one_kill(kind: str, number: int, whole: dict[str, tuple[Path, float]], folder: Path) -> dict[str, Any]:
    start, processes = KINDS[kind], 1 if kind == "one" else 2
    method = METHODS[number % len(METHODS)]
    aim = AIMS[number // len(METHODS) % len(AIMS)]
    reference, duration = whole[method]
    draw = random.Random(f"{kind}/{number}")
    attempt = 0
    while True:  # until a kill hits a running process
        attempt += 1
        out = folder / f"{kind}-{number}"
        shutil.rmtree(out, ignore_errors=True)
        run = start(method, out)
        if moment(aim, out, run, duration, draw):
            what = run.kill(draw)
            if run.wait() != 0 and not (out / "summary.json").exists():
                break
        else:
            run.wait()
            duration *= 0.8  # the machine is less busy now than it was before
    hit = what_was_hit(out)
    files = check_files(out)
    code = (again := start(method, out)).wait()
    assert code == 0, f"resume ended with {code}: {getattr(again, 'words', '')}"
    apart = difference(reference, out, exact=processes == 1)
    check_files(out)
    shutil.rmtree(out)
    return {
        "kind": kind,
        "processes": processes,
        "kill": number,
        "method": method,
        "aim": aim,
        "killed": what,
        "hit": hit,
        "files": files,
        "difference": apart,
        "same": apart <= TOLERANCE[processes],
        "attempts": attempt,
    }


def table(lines: list[dict[str, Any]], about: dict[str, Any]) -> str:
    text = ["# A run survives", ""]
    for processes in sorted({line["processes"] for line in lines}):
        ours = [line for line in lines if line["processes"] == processes]
        same = sum(line["same"] for line in ours)
        largest = max(line["difference"] for line in ours)
        limit = "the same bits as" if processes == 1 else "results within 1e-6 of"
        text.append(
            f"- {processes} process{'es' if processes > 1 else ''}: {same} of {len(ours)} killed runs end with {limit} "
            f"the uninterrupted run (largest difference {largest:.1g})."
        )
    files = sum(line["files"] for line in lines)
    text += [
        "",
        f"After the kills {files} files were checked; one that is not whole would have stopped the benchmark.",
        "",
    ]
    hits = Counter((line["hit"], line["processes"]) for line in lines)
    columns = sorted({line["processes"] for line in lines})
    text += ["| what the kill hit | " + " | ".join(f"{p} process{'es' if p > 1 else ''}" for p in columns) + " |"]
    text += ["|---|" + "---:|" * len(columns)]
    for hit in sorted({line["hit"] for line in lines}):
        text.append(f"| {hit} | " + " | ".join(str(hits[hit, p]) for p in columns) + " |")
    killed = Counter(line["killed"] for line in lines if line["processes"] > 1)
    if killed:
        text += [
            "",
            "Of two processes were killed: " + ", ".join(f"{k} {n} times" for k, n in sorted(killed.items())) + ".",
        ]
    versions = {key: about[key] for key in ("selc", "commit", "python", "torch")}
    text += ["", f"`python benchmarks/survival.py`; {', '.join(f'{k} {v}' for k, v in versions.items())}.", ""]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--one", type=int, default=70, help="kills of a run in one process")
    parser.add_argument("--two", type=int, default=26, help="kills of a run in two processes")
    parser.add_argument("--torchrun", type=int, default=4, help="kills of a run in two processes of torchrun")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results")
    options = parser.parse_args()
    torch.set_num_threads(1)
    store = RESULTS / "survival.jsonl"
    if options.fresh:
        store.unlink(missing_ok=True)
    lines = [json.loads(line) for line in store.read_text().splitlines()] if store.exists() else []
    done = {(line["kind"], line["kill"]) for line in lines}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        execute(config_of("selc"), folder / "warm", Quiet())  # imports what is imported late, for all the children
        for kind, start in KINDS.items():
            left = [number for number in range(getattr(options, kind)) if (kind, number) not in done]
            whole = {}
            for method in METHODS if left else ():
                out = folder / f"whole-{kind}-{method}"
                run = start(method, out)
                while not (out / "config.toml").exists() and run.running():
                    time.sleep(0.001)
                started = time.monotonic()
                while not (out / "summary.json").exists() and run.running():
                    time.sleep(0.001)
                whole[method] = (out, time.monotonic() - started)
                code = run.wait()
                assert code == 0, getattr(run, "words", code)
                print(f"{method}, {kind}: {whole[method][1]:.1f} s", flush=True)
            for number in left:
                line = one_kill(kind, number, whole, folder)
                lines.append(line)
                write_text(store, "".join(json.dumps(line) + "\n" for line in lines))
                print(f"{time.monotonic() - began:5.0f} s  {line}", flush=True)
                assert line["same"], "not the same"
    write_text(RESULTS / "survival.md", table(lines, environment()))
    print((RESULTS / "survival.md").read_text())


if __name__ == "__main__":
    main()
