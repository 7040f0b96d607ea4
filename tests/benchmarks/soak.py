"""An hour of random faults over a study of short runs: is its table, byte for byte, that of a quiet machine?

The study is that of the tests (tests/study/tiny.py), on a Ray cluster of two hosts (network namespaces), its
results on a disk of their own that both see, watched by a board that a reader looks at. Every few seconds one
fault of FAULTS happens, drawn by the seed; the command is typed again whenever it has ended, and asks for one
more seed whenever it has finished. When the time is over, it finishes without faults, and the same study is
run once more elsewhere, by itself. Needs root, for disks and networks.

    python tests/benchmarks/soak.py
    python tests/benchmarks/soak.py --minutes 5 --seed 7 --faults "the link is cut" "the disk is full"
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import tyro
from figure import Figure, as_table, hardware, write_part

from recstudy.base.terminal import console
from recstudy.records import read_json

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS))
sys.path.append(str(TESTS / "study"))
sys.path.append(str(TESTS / "faults"))

from disks import Disk  # noqa: E402
from ray_nodes import TOKEN, lose, started  # noqa: E402
from twice import curve  # noqa: E402
from two_hosts import HEAD, IMPATIENT, link, node, on, two_hosts  # noqa: E402

TINY = TESTS / "study" / "tiny.py"
RUN = ("--set", "train.epochs=30", "--set", "resources.hang_timeout_minutes=0.2")
ENVIRONMENT = {**TOKEN, **IMPATIENT}
# between the end of a fault and the next; the command takes half a minute to its first run
PAUSE_S = (10.0, 45.0)
LOOK_S, SAMPLE_S, SETTLED_S = 0.5, 5.0, 60.0
PATIENCE_S = 1800.0  # for the last command, which nothing disturbs
GROWTH = 1.1


class Sample(NamedTuple):
    """Resident memory of a process, so many seconds into its life."""

    age: float
    kilobytes: int


@dataclass
class Soak:
    """The study under way, and all that a fault may touch."""

    folder: Path
    chance: random.Random
    disk: Disk
    hosts: dict[int, ExitStack] = field(default_factory=dict)
    nodes: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    driver: subprocess.Popen[bytes] | None = None
    start_time: float = 0.0
    seeds: int = 1
    codes: Counter[int] = field(default_factory=Counter)
    finished: dict[str, bytes] = field(default_factory=dict)
    lives: list[list[Sample]] = field(default_factory=list)

    @property
    def results(self) -> Path:
        return self.disk.path / "results"

    def join(self, host: int) -> None:
        """A node of the cluster there, as `ray start` makes it."""
        self.hosts[host] = ExitStack()
        log = self.folder / f"node{host}.log"
        start = started(log, *node(host, str(self.folder), cpus=1), inside=on(host), environment=ENVIRONMENT)
        self.nodes[host] = self.hosts[host].enter_context(start)

    def rejoin(self, *hosts: int) -> None:
        """New nodes in place of what is left of these."""
        for host in reversed(hosts):
            self.hosts[host].close()
        while 1 in hosts and (
            left := [process for process, title in titles() if f"--gcs-address={HEAD}" in title]
        ):
            send(left, signal.SIGKILL)  # `ray start` takes any of them for a head that is there
            time.sleep(LOOK_S)
        for host in hosts:
            self.join(host)

    def command(self) -> list[str]:
        cluster_options = ["--results", str(self.results), "--address", HEAD]
        return on(1, sys.executable, str(TINY), *RUN, *cluster_options, "--seeds", str(self.seeds))

    def start(self, log: str = "driver.log") -> subprocess.Popen[bytes]:
        with open(self.folder / log, "ab") as output:
            environment = {**os.environ, **IMPATIENT}
            return subprocess.Popen(
                self.command(),
                cwd=self.folder,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    def look(self) -> None:
        """Type the command where none is at work, with one more seed where it had finished; weigh the
        driver.
        """
        if self.driver is None or self.driver.poll() is not None:
            if self.driver is not None:
                self.codes[self.driver.returncode] += 1
                self.seeds += self.driver.returncode == 0
            self.driver, self.start_time = self.start(), time.monotonic()
            self.lives.append([])
        self.keep()
        life, age = self.lives[-1], time.monotonic() - self.start_time
        if not life or age - life[-1].age >= SAMPLE_S:
            life.extend(Sample(age, size) for size in resident(self.driver.pid))

    def keep(self) -> None:
        """Every result that is there now, as it is: it must never change."""
        for path in self.results.glob("runs/*/result.json"):
            if path.parent.name not in self.finished:
                self.finished[path.parent.name] = path.read_bytes()

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(LOOK_S)
            self.look()

    def to_the_end(self) -> None:
        """The last command, until it has finished."""
        seeds, until = self.seeds, time.monotonic() + PATIENCE_S
        while self.seeds == seeds:
            assert time.monotonic() < until, f"not finished after {PATIENCE_S:.0f} s"
            self.wait(LOOK_S)
        self.seeds = seeds
        assert self.driver is not None
        os.killpg(self.driver.pid, signal.SIGKILL)  # it has begun the next seed

    def some_run(self) -> list[int]:
        """The process of one of the runs under way, if there is one."""
        trial_processes = trials()
        return [self.chance.choice(trial_processes)] if trial_processes else []


# -------------------------------------------------------------------------------------------------------------- processes


def titles() -> Iterator[tuple[int, str]]:
    """Each process, and what ps shows of it."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            yield (
                int(process.name),
                (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"),
            )


def trials() -> list[int]:
    return sorted(process for process, title in titles() if title.startswith("tiny latent_steps="))


def resident(process: int) -> list[int]:
    """Kilobytes, if it is there."""
    with suppress(OSError):
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
        return [int(line.split()[1]) for line in lines if line.startswith("VmRSS")]
    return []


def send(processes: list[int], sign: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, sign)


# ------------------------------------------------------------------------------------------------------- the
# board's reader


class Browser:
    """Asks the board at `url`, which is this `process`, for the page of a study, as a browser does that has
    none of it.
    """

    def __init__(self, url: str, process: int) -> None:
        self.url, self.process = url, process

    def open(self, path: str) -> None:
        outputs = ("update.data", "have.data")
        inputs = [("at", "pathname", path), ("at", "search", ""), ("tick", "n_intervals", 1)]
        request: dict[str, Any] = {
            "output": f"..{'...'.join(outputs)}..",
            "outputs": [dict(zip(("id", "property"), name.split("."), strict=True)) for name in outputs],
            "inputs": [{"id": name, "property": kind, "value": value} for name, kind, value in inputs],
            "state": [{"id": "have", "property": "data", "value": {}}],
            "changedPropIds": ["tick.n_intervals"],
        }
        update = "/_dash-update-component", json.dumps(request).encode()
        for file, body in ((path, None), ("/_dash-layout", None), ("/_dash-dependencies", None), update):
            with urlopen(
                Request(self.url + file, body, {"Content-Type": "application/json"}), timeout=SETTLED_S
            ) as answer:
                answer.read()


@contextmanager
def board(root: Path) -> Iterator[Browser]:
    """A board in a process of its own, as soon as it says that it listens."""
    command = [
        sys.executable,
        "-c",
        "from recstudy.cli import main; main()",
        "board",
        str(root),
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stdout is not None
            yield Browser(process.stdout.readline().split()[1], process.pid)
        finally:
            process.terminate()


# ----------------------------------------------------------------------------------------------------------------- faults


def run_killed(soak: Soak) -> None:
    send(soak.some_run(), signal.SIGKILL)


def run_stopped(soak: Soak) -> None:
    send(soak.some_run(), signal.SIGSTOP)


def run_paused(soak: Soak) -> None:
    paused = soak.some_run()
    send(paused, signal.SIGSTOP)
    soak.wait(soak.chance.uniform(1, 6))
    send(paused, signal.SIGCONT)


def driver_killed(soak: Soak) -> None:
    tell_driver(soak, signal.SIGKILL)


def driver_interrupted(soak: Soak) -> None:
    tell_driver(soak, signal.SIGINT)


def driver_asked_to_leave(soak: Soak) -> None:
    tell_driver(soak, signal.SIGTERM)


def driver_paused(soak: Soak) -> None:
    tell_driver(soak, signal.SIGSTOP)
    soak.wait(soak.chance.uniform(2, 12))
    tell_driver(soak, signal.SIGCONT)


def tell_driver(soak: Soak, sign: signal.Signals) -> None:
    if soak.driver is not None:
        send([soak.driver.pid], sign)


def second_driver(soak: Soak) -> None:
    """The same command, typed twice; the second one is killed."""
    with soak.start("second.log") as driver:
        soak.wait(soak.chance.uniform(5, 20))
        os.killpg(driver.pid, signal.SIGKILL)


def disk_full(soak: Soak) -> None:
    soak.disk.fill()
    soak.wait(soak.chance.uniform(2, 12))
    soak.disk.free_space()


def files_torn(soak: Soak) -> None:
    """As a power cut leaves them: the last lines of unfinished runs cut short, and the newest checkpoint
    too.
    """
    tell_driver(soak, signal.SIGKILL)
    send(trials(), signal.SIGKILL)
    while trials():
        time.sleep(LOOK_S)
    for run in sorted(soak.results.glob("runs/*")):
        if not (run / "result.json").exists():
            for log in ("epochs.jsonl", "losses.jsonl", "attempts.jsonl"):
                with suppress(FileNotFoundError), open(run / log, "r+b") as file:
                    file.seek(0, os.SEEK_END)
                    file.write(b'{"epoch": 29, "train_lo')
            for newest in sorted(run.glob("checkpoint-*"))[-1:]:
                os.truncate(newest, newest.stat().st_size // 2)


def node_killed(soak: Soak) -> None:
    lose(soak.nodes[2])
    soak.wait(soak.chance.uniform(0, 10))
    soak.rejoin(2)


def link_cut(soak: Soak) -> None:
    """For so long that Ray gives the host up."""
    link("down")
    soak.wait(soak.chance.uniform(10, 20))
    link("up")
    soak.rejoin(2)


def head_killed(soak: Soak) -> None:
    lose(soak.nodes[1])
    if soak.driver is not None:
        soak.driver.wait()  # it says so and ends
    soak.rejoin(1, 2)


FAULTS: dict[str, Callable[[Soak], None]] = {
    "a run is killed": run_killed,
    "a run is stopped for good": run_stopped,
    "a run is paused": run_paused,
    "the driver is killed": driver_killed,
    "the driver is interrupted": driver_interrupted,
    "the driver is asked to leave": driver_asked_to_leave,
    "the driver is paused": driver_paused,
    "a second driver comes and is killed": second_driver,
    "the disk is full": disk_full,
    "all is killed and files are torn": files_torn,
    "a node is killed": node_killed,
    "the link is cut": link_cut,
    "the head is killed": head_killed,
}


# --------------------------------------------------------------------------------------------------------------- the hour


@dataclass(frozen=True)
class Options:
    """How long, and which faults."""

    minutes: float = 60.0
    """Of faults; the undisturbed run comes on top."""
    seed: int = 0
    """Of the faults and their moments."""
    faults: tuple[str, ...] = tuple(FAULTS)
    """Which ones, by name."""
    results: Path = Path("results")
    """The folder that gets bench/overhead.json."""
    keep: bool = False
    """Keep the working folder, which is named then."""


@contextmanager
def prepared(seed: int) -> Iterator[Soak]:
    """The hosts, the cluster and the disk."""
    with tempfile.TemporaryDirectory(prefix="soak") as name, two_hosts():
        disk = Disk(Path(name) / "disk", size="300m")
        disk.path.mkdir()
        assert disk.mount(), "a file system cannot be mounted here (not root)"
        soak = Soak(Path(name), random.Random(seed), disk)
        try:
            soak.join(1)
            soak.join(2)
            yield soak
        finally:
            if soak.driver is not None:
                with suppress(ProcessLookupError):
                    os.killpg(soak.driver.pid, signal.SIGKILL)
            for stack in reversed(soak.hosts.values()):
                stack.close()
            disk.unmount()


def disturbed(soak: Soak, reader: Browser, options: Options) -> tuple[Counter[str], list[Sample]]:
    """How often each fault happened, and what the board weighed over the time."""
    happened, board_life = Counter[str](), list[Sample]()
    start_time = time.monotonic()
    while (age := time.monotonic() - start_time) < 60 * options.minutes:
        soak.wait(soak.chance.uniform(*PAUSE_S))
        name = soak.chance.choice(options.faults)
        print(f"{age:6.0f} s  {len(soak.finished):5} finished, {soak.seeds} seeds: {name}", flush=True)
        FAULTS[name](soak)
        happened[name] += 1
        with suppress(OSError):  # it says "no space" in words of its own
            reader.open("/study/tiny/quick")
        board_life.extend(Sample(age, size) for size in resident(reader.process))
    soak.to_the_end()
    return happened, board_life


def undisturbed(soak: Soak) -> Path:
    """The results of the same study, elsewhere and by itself."""
    results = soak.folder / "undisturbed"
    subprocess.run(
        [sys.executable, str(TINY), *RUN, "--results", str(results), "--seeds", str(soak.seeds)],
        check=True, cwd=soak.folder, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return results


def compared(soak: Soak, reference_folder: Path, options: Options) -> list[Figure]:
    """What was lost, made again, or came out otherwise."""
    ids = sorted(path.parent.name for path in reference_folder.glob("runs/*/result.json"))
    ours = {run: read_json(soak.results / "runs" / run / "result.json") for run in ids}
    theirs = {run: read_json(reference_folder / "runs" / run / "result.json") for run in ids}
    differ = [
        run
        for run in ids
        if ours[run] is None
        or ours[run]["metrics"] != theirs[run]["metrics"]
        or curve(soak.results / "runs" / run) != curve(reference_folder / "runs" / run)
    ]
    repeated_runs = [
        run
        for run, result_bytes in soak.finished.items()
        if (soak.results / "runs" / run / "result.json").read_bytes() != result_bytes
    ]
    table = "studies/tiny/quick/report/tables/depths.md"
    tables = (soak.results / table).read_bytes() != (reference_folder / table).read_bytes()
    files = (soak.folder / log for log in ("driver.log", "second.log"))
    logs = "".join(file.read_text(encoding="utf-8") for file in files if file.exists())
    return [
        Figure("runs", "", [len(ids)], note=f"{options.minutes:g} minutes, seed {options.seed}"),
        Figure("commands", "", [sum(soak.codes.values())], note=f"exit codes: {counted(soak.codes)}"),
        Figure("results that were lost or made again", "", [len(repeated_runs)], maximum=0),
        Figure("runs with other metrics or curves", "", [len(differ)], maximum=0),
        Figure("tables that differ", "", [int(tables)], maximum=0, note="byte for byte"),
        Figure("tracebacks on the terminal", "", [logs.count("Traceback (most recent")], maximum=0),
    ]


def counted(counter: Counter[int] | Counter[str]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(counter.items(), key=str))


def growth(name: str, life: list[Sample]) -> Figure:
    """The last weight by that when it had settled."""
    settled = [sample for sample in life if sample.age >= SETTLED_S] or life
    note = (
        f"{settled[0].kilobytes / 1024:.0f} to {settled[-1].kilobytes / 1024:.0f} MB in {life[-1].age:.0f} s"
    )
    return Figure(
        f"memory of {name}, last / settled",
        "x",
        [settled[-1].kilobytes / settled[0].kilobytes],
        maximum=GROWTH,
        note=note,
    )


def main(options: Options) -> None:
    terminal, start_time = console(), time.perf_counter()
    unknown = set(options.faults) - FAULTS.keys()
    if unknown:
        sys.exit(f"No such fault: {', '.join(sorted(unknown))}. There are: {', '.join(FAULTS)}")
    with prepared(options.seed) as soak:
        soak.look()
        while not (soak.results / "recstudy.json").exists():
            soak.wait(LOOK_S)
        with board(soak.results) as reader:
            happened, weight = disturbed(soak, reader, options)
        figures = compared(soak, undisturbed(soak), options)
        longest = max(soak.lives, key=lambda life: life[-1].age if life else 0)
        figures += [growth("the driver's longest life", longest), growth("the board", weight)]
        if options.keep or any(figure.meets_mark is False for figure in figures):
            saved_folder = Path(tempfile.mkdtemp(prefix="soaked"))
            shutil.copytree(
                soak.folder, saved_folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("[12]")
            )
            terminal.print(f"All of it: {saved_folder}", soft_wrap=True)
    terminal.print("  ".join(f"{name}: {value}" for name, value in hardware().items()))
    for name, count in happened.most_common():
        terminal.print(f"{count:4}  {name}")
    terminal.print(as_table(f"soak, {time.perf_counter() - start_time:.0f} s", figures))
    terminal.print(
        f"Figures: {write_part(options.results, 'soak', figures, time.perf_counter() - start_time)}",
        soft_wrap=True,
    )


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
