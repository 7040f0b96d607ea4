"""Measure what share of random mutants of each folder of the package the tests kill.

    python tests/benchmarks/mutants.py --per-folder 6                        # every folder, two to six seconds a mutant
    python tests/benchmarks/mutants.py --per-folder 50 --seed 3 --folder evidence --folder recursive/data

A mutant changes one operator, comparison, constant, condition or return value inside a function. Each test file is run
once before, if it is newer than its record in build/mutants: the record has the functions that each test calls, and its
seconds. Then a forked child for each mutant replaces the function's code object, so that no file is edited, and runs the
fastest tests that call the function until one fails. Only tests in the same process count: what a subprocess runs is not
mutated, and tests marked `whole` or `fault` are not run.
"""

import argparse
import ast
import builtins
import contextlib
import copy
import gc
import importlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE, RECORDS = ROOT / "recstudy", ROOT / "build" / "mutants"
# recorded seconds of the tests that one mutant is run against
BUDGET = float(os.environ.get("MUTANT_SECONDS", "10"))
COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
            ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}  # fmt: skip
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
            ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr}  # fmt: skip
QUIET = ["-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore", "-q"]


class Mutant(NamedTuple):
    """A function, `file.py:Class.method`, and the position in it of the node that is changed."""

    function: str
    node: int


def mutated(node: ast.AST) -> ast.AST | None:
    """Return the node with one change, or None if this kind of node is not changed."""
    node = copy.deepcopy(node)
    match node:
        case ast.Compare(ops=[operator, *_]) if type(operator) in COMPARED:
            node.ops[0] = COMPARED[type(operator)]()
        case ast.BinOp(op=operator) if type(operator) in COMPUTED:
            node.op = COMPUTED[type(operator)]()
        case ast.BoolOp(op=operator):
            node.op = ast.Or() if isinstance(operator, ast.And) else ast.And()
        case ast.UnaryOp(op=ast.Not()):
            return node.operand
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value) | float(value)):
            node.value = value + 1
        case ast.If(test=test) | ast.IfExp(test=test):
            node.test = ast.UnaryOp(ast.Not(), test)
        case ast.Return(value=ast.expr() as value) if ast.unparse(value) != "None":
            node.value = ast.Constant(None)
        case _:
            return None
    return node


def functions(tree: ast.AST, owner: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions and methods that no other function contains, with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield owner + node.name, node
        elif not isinstance(node, ast.Lambda):
            yield from functions(node, f"{owner}{node.name}." if isinstance(node, ast.ClassDef) else owner)


def evaluated_at_import(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the parts of a function that its code object does not contain, or that only type checkers read."""
    yield from function.decorator_list
    yield function.args
    for node in ast.walk(function):
        annotation = node.returns if isinstance(node, ast.FunctionDef) else getattr(node, "annotation", None)
        if annotation is not None:
            yield annotation


def folder_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE).parts[:-1]
    return "/".join(parts[: 2 if parts[:1] == ("recursive",) else 1]) or "."


def possible_mutants() -> dict[str, list[Mutant]]:
    """Return every mutant, by folder."""
    mutants = defaultdict(list)
    for file in sorted(PACKAGE.rglob("*.py")):
        for name, function in functions(ast.parse(file.read_text(encoding="utf-8"))):
            excluded = {id(node) for part in evaluated_at_import(function) for node in ast.walk(part)}
            mutants[folder_of(file)] += [
                Mutant(f"{file.relative_to(PACKAGE)}:{name}", position)
                for position, node in enumerate(ast.walk(function))
                if id(node) not in excluded and mutated(node) is not None
            ]
    return mutants


def mutate(function: ast.FunctionDef, position: int) -> str:
    """Change the node at this position in place, and return the change in words."""
    old = list(ast.walk(function))[position]
    new = mutated(old)
    for parent in ast.walk(function):
        for field, value in ast.iter_fields(parent):
            if value is old:
                setattr(parent, field, new)
            elif isinstance(value, list) and old in value:
                value[value.index(old)] = new
    return f"line {old.lineno}: {ast.unparse(old).splitlines()[0]} -> {ast.unparse(new).splitlines()[0]}"


def live_functions() -> dict[str, list[FunctionType]]:
    """Import every module of the package, and return its functions in memory, by file."""
    for file in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(("recstudy", *file.relative_to(PACKAGE).with_suffix("").parts))
        with contextlib.suppress(ImportError):
            importlib.import_module(name.removesuffix(".__init__"))
    live = defaultdict(list)
    for item in gc.get_objects():
        if isinstance(item, FunctionType):
            live[item.__code__.co_filename].append(item)
    return live


def replace(
    file: Path, live: dict[str, list[FunctionType]], change: Callable[[str, ast.FunctionDef], object]
) -> int:
    """Apply `change` to the functions of a file, give its code to the live ones, and return how many there are."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for name, function in list(functions(tree)):
        change(name, function)
    codes, stack = {}, [compile(ast.fix_missing_locations(tree), str(file), "exec", dont_inherit=True)]
    while stack:
        code = stack.pop()
        codes[code.co_qualname, code.co_firstlineno, code.co_freevars] = code
        stack.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))
    replaced = 0
    for function in live[str(file)]:
        old = function.__code__
        code = codes.get((old.co_qualname, old.co_firstlineno, old.co_freevars))
        if code is not None:
            function.__code__ = code
            replaced += 1
    return replaced


def record_of(test_file: Path) -> Path:
    return RECORDS / f"{'-'.join(test_file.relative_to(ROOT).parts)}.json"


class Record:
    """Pytest plug-in: write the functions that each passing test calls, and its seconds, for each test file."""

    def __init__(self) -> None:
        self.tests: dict[str, dict[str, object]] = {}
        self.calls: set[str] = set()
        self.seconds, self.passed = 0.0, True

    def pytest_collection_finish(self) -> None:
        live = live_functions()
        builtins.note_call = lambda function: self.calls.add(function)  # type: ignore[attr-defined]
        for file in PACKAGE.rglob("*.py"):

            def note(name: str, function: ast.FunctionDef, file: Path = file) -> None:
                place = f"{file.relative_to(PACKAGE)}:{name}"
                position = 1 if ast.get_docstring(function) is not None else 0
                function.body.insert(position, ast.parse(f"note_call({place!r})").body[0])

            replace(file, live, note)

    def pytest_runtest_logstart(self) -> None:
        self.calls.clear()
        self.seconds, self.passed = 0.0, True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds += report.duration
        self.passed = self.passed and report.passed

    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if self.passed:
            self.tests[item.nodeid] = {"seconds": round(self.seconds, 3), "calls": sorted(self.calls)}
        if nextitem is None or nextitem.path != item.path:
            record_of(item.path).write_text(json.dumps(self.tests), encoding="utf-8")
            self.tests = {}


class Kill:
    """Pytest plug-in: in place of the test session, a forked child for each mutant."""

    def __init__(self, mutants: dict[str, list[Mutant]], tests: dict[str, list[tuple[float, str]]]) -> None:
        self.mutants, self.tests = mutants, tests

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        import torch

        torch.set_num_threads(1)
        self.live = live_functions()
        items = {item.nodeid: item for item in session.items}
        print(
            "| folder | killed | survived | no test calls it | score |\n| --- | ---: | ---: | ---: | ---: |"
        )
        survivors = []
        for folder, mutants in self.mutants.items():
            counts: Counter[str] = Counter()
            for mutant in mutants:
                status = self.status(session, mutant, items)
                counts[status] += 1
                if status != "killed":
                    survivors.append(f"{status}: {mutant.function}, {self.change(mutant)}")
            row = (counts["killed"], counts["survived"], counts["no test"])
            print(f"| {folder} | {' | '.join(map(str, row))} | {100 * row[0] / sum(row):.0f} % |", flush=True)
        print("", *survivors, sep="\n")
        return True

    def change(self, mutant: Mutant) -> str:
        file, name = mutant.function.split(":")
        tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"))
        return mutate(dict(functions(tree))[name], mutant.node)

    def status(self, session: pytest.Session, mutant: Mutant, items: dict[str, pytest.Item]) -> str:
        """Return whether the fastest tests kill it: killed, survived or no test."""
        chosen, seconds = [], 0.0
        for test_seconds, test in sorted(self.tests[mutant.function]):
            seconds += test_seconds + 0.02
            if chosen and seconds > BUDGET:
                break
            if test in items:
                chosen.append(items[test])
        if not chosen:
            return "no test"
        pid = os.fork()
        if pid == 0:
            self.run_child(session, mutant, chosen)
        deadline, done, status = time.time() + 30 + 3 * seconds, 0, 0
        while time.time() < deadline and not done:
            time.sleep(0.02)
            done, status = os.waitpid(pid, os.WNOHANG)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        if not done:  # a mutant that loops for ever
            os.waitpid(pid, 0)
        ending = os.waitstatus_to_exitcode(status) if done else 1
        return {0: "survived", 3: "no test"}.get(ending, "killed")

    def run_child(self, session: pytest.Session, mutant: Mutant, chosen: list[pytest.Item]) -> None:
        """Run these tests on the mutant, and exit with 0 if none fails, or 3 if the function is not live."""
        os.setsid()
        for descriptor in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        file, function_name = mutant.function.split(":")

        def change(name: str, function: ast.FunctionDef) -> None:
            if name == function_name:
                mutate(function, mutant.node)

        class Watch:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.failed:
                    os._exit(1)

        try:
            if not replace(PACKAGE / file, self.live, change):
                os._exit(3)
            session.config.pluginmanager.register(Watch())
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        except BaseException:
            os._exit(1)
        os._exit(0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--per-folder", type=int, default=6, help="mutants of each folder (default: 6)")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of mutants (default: 1)")
    parser.add_argument("--folder", action="append", help="of recstudy/, all by default; may be repeated")
    parser.add_argument("--record", nargs="*", metavar="TESTS", help="only record these test files")
    parser.add_argument(
        "--as-recorded", action="store_true", help="record nothing: use the tests recorded so far"
    )
    options = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))  # this checkout, not an installed one
    os.environ["PYTHONPATH"] = str(ROOT)
    RECORDS.mkdir(parents=True, exist_ok=True)
    if options.record is not None:
        return pytest.main([*QUIET, *options.record], plugins=[Record()])
    newest = {
        file: record_of(file).stat().st_mtime if record_of(file).exists() else 0.0
        for file in sorted((ROOT / "tests").rglob("test_*.py"))
    }
    stale = [str(file) for file, recorded in newest.items() if file.stat().st_mtime > recorded]
    if stale and not options.as_recorded:
        subprocess.run([sys.executable, __file__, "--record", *stale], stdout=sys.stderr)
    tests: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for file in filter(Path.exists, map(record_of, newest)):
        for test, recorded in json.loads(file.read_text(encoding="utf-8")).items():
            for function in recorded["calls"]:
                tests[function].append((recorded["seconds"], test))
    possible = possible_mutants()
    mutants = {
        folder: random.Random(f"{options.seed} {folder}").sample(every, min(options.per_folder, len(every)))
        for folder, every in possible.items()
        if folder in (options.folder or possible)
    }
    functions_mutated = {mutant.function for group in mutants.values() for mutant in group}
    files = {test.split("::")[0] for function in functions_mutated for _, test in tests[function]}
    return pytest.main([*QUIET, "--capture=sys", *sorted(files)], plugins=[Kill(mutants, tests)])


if __name__ == "__main__":
    sys.exit(main())
