"""Measure what share of random mutants of the package the tests kill.

    python tests/benchmarks/mutants.py draw 300 build/mutants.json          # draw mutants, once
    python tests/benchmarks/mutants.py hits build/mutants.json tests        # run the tests once: which of them reach each mutant
    python tests/benchmarks/mutants.py kill build/mutants.json              # run each mutant against the tests that reach it

A mutant changes one operator, comparison, constant, condition or return value inside a function of evidence,
records, config, train, study or cluster. `kill` collects the tests once, then forks a child for each mutant,
which replaces the function's code object and runs the tests that reach it, fastest first, until one fails.
Only tests in the same process count: what a subprocess runs is not mutated.
"""

import ast
import contextlib
import copy
import gc
import json
import os
import random
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

PACKAGE = Path(__file__).parents[2] / "recstudy"
FOLDERS = ("evidence", "records", "config", "train", "study", "cluster")
SEED = 43
# measured seconds of the tests that one mutant is run against
BUDGET = float(os.environ.get("MUTANT_SECONDS", "20"))
COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
            ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}  # fmt: skip
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
            ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr}  # fmt: skip


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
        case ast.Return(value=ast.expr() as value) if not (
            isinstance(value, ast.Constant) and value.value is None
        ):
            node.value = ast.Constant(None)
        case _:
            return None
    return node


def places(file: Path) -> Iterator[tuple[int, list[int]]]:
    """Yield (line of the outermost function, positions of the nodes in it that can be mutated)."""
    for function in functions(ast.parse(file.read_text(encoding="utf-8"))):
        unused = {id(node) for part in evaluated_at_import(function) for node in ast.walk(part)}
        nodes = enumerate(ast.walk(function))
        inside = [number for number, node in nodes if id(node) not in unused and mutated(node) is not None]
        if inside:
            yield function.lineno, inside


def evaluated_at_import(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the parts of a function that its code object does not contain, or that only type checkers
    read.
    """
    yield from function.decorator_list
    yield function.args
    for node in ast.walk(function):
        annotation = node.returns if isinstance(node, ast.FunctionDef) else getattr(node, "annotation", None)
        if annotation is not None:
            yield annotation


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Yield the functions and methods that no other function contains."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node
        elif not isinstance(node, ast.Lambda):
            yield from functions(node)


def draw(count: int, file: Path) -> None:
    sources = sorted(path for folder in FOLDERS for path in (PACKAGE / folder).rglob("*.py"))
    every = [
        (str(path.relative_to(PACKAGE)), line, number)
        for path in sources
        for line, numbers in places(path)
        for number in numbers
    ]
    chosen = sorted(random.Random(SEED).sample(every, count))
    mutants = [{"file": path, "line": line, "node": number} for path, line, number in chosen]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"mutants": mutants, "possible": len(every)}, indent=1), encoding="utf-8")
    print(f"{count} of {len(every)} mutants drawn")


def code_of(mutant: dict[str, Any], hit: int | None = None) -> tuple[CodeType, str]:
    """Return the code object of the mutant's function, and its change in words.

    Args:
        mutant: One entry of the file that `draw` wrote.
        hit: If given, the function is not mutated: its first statement reports this number.
    """
    path = PACKAGE / mutant["file"]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    function = next(f for f in functions(tree) if f.lineno == mutant["line"])
    words = f"{mutant['file']}:{mutant['line']} {function.name}"
    if hit is None:
        old = list(ast.walk(function))[mutant["node"]]
        new = mutated(old)
        words += f": {ast.unparse(old).splitlines()[0]} -> {ast.unparse(new).splitlines()[0]}"
        for parent in ast.walk(function):
            for name, value in ast.iter_fields(parent):
                if value is old:
                    setattr(parent, name, new)
                elif isinstance(value, list) and old in value:
                    value[value.index(old)] = new
    else:
        report = ast.parse(f"__import__('sys').mutant_hit({hit})").body
        body = function.body
        first = 1 if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) else 0
        body[first:first] = report
    ast.fix_missing_locations(tree)
    return find_code(compile(tree, str(path), "exec", dont_inherit=True), function), words


def find_code(code: CodeType, function: ast.FunctionDef) -> CodeType:
    line = function.decorator_list[0].lineno if function.decorator_list else function.lineno
    stack = [code]
    while stack:
        code = stack.pop()
        if code.co_name == function.name and code.co_firstlineno == line:
            return code
        stack.extend(constant for constant in code.co_consts if isinstance(constant, CodeType))
    raise LookupError(function.name)


def replace(code: CodeType) -> int:
    """Give this code to the live functions that were made of the same lines, and return how many there
    are.
    """
    import recstudy

    root = str(Path(recstudy.__file__).parent)
    place = Path(code.co_filename).relative_to(PACKAGE)
    replaced = 0
    for item in gc.get_objects():
        if isinstance(item, FunctionType):
            old = item.__code__
            is_same_function = old.co_firstlineno == code.co_firstlineno and old.co_name == code.co_name
            if (
                is_same_function
                and old.co_filename == str(Path(root) / place)
                and old.co_freevars == code.co_freevars
            ):
                item.__code__ = code.replace(co_filename=old.co_filename)
                replaced += 1
    return replaced


class Hits:
    """Pytest plug-in: the tests that reach each mutant's function, and what each test took."""

    def __init__(self, file: Path) -> None:
        self.file, self.plan = file, json.loads(file.read_text(encoding="utf-8"))
        self.tests: dict[int, set[str]] = defaultdict(set)
        self.seconds: dict[str, float] = {}
        self.test = ""
        sys.mutant_hit = lambda number: self.test and self.tests[number].add(self.test)  # type: ignore[attr-defined]

    def pytest_collection_finish(self) -> None:
        import_all()
        numbers = defaultdict(list)
        for number, mutant in enumerate(self.plan["mutants"]):
            numbers[mutant["file"], mutant["line"]].append(number)
        for (_, _), group in numbers.items():
            code, _ = code_of(self.plan["mutants"][group[0]], hit=group[0])
            if not replace(code):
                print("no live function:", self.plan["mutants"][group[0]])
        self.groups = numbers

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test = nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0) + report.duration
        if report.failed:
            self.seconds[report.nodeid] = float("inf")

    def pytest_sessionfinish(self) -> None:
        for group in self.groups.values():
            for number in group:
                reaching = self.tests.get(group[0], set())
                passed = [test for test in reaching if self.seconds.get(test, float("inf")) < float("inf")]
                self.plan["mutants"][number]["tests"] = sorted(passed, key=self.seconds.__getitem__)
        self.plan["seconds"] = {test: took for test, took in self.seconds.items() if took < float("inf")}
        self.file.write_text(json.dumps(self.plan, indent=1), encoding="utf-8")


def import_all() -> None:
    """Import every module of the mutated folders, so that each function lives before the tests run."""
    import importlib

    for folder in FOLDERS:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            name = ".".join(("recstudy", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
                ".__init__"
            )
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


class Kill:
    """Pytest plug-in: in place of the test session, a forked child for each mutant."""

    def __init__(self, file: Path) -> None:
        self.file, self.plan = file, json.loads(file.read_text(encoding="utf-8"))

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        import torch

        torch.set_num_threads(1)
        import_all()
        items = {item.nodeid: item for item in session.items}
        gc.collect()
        for number, mutant in enumerate(self.plan["mutants"]):
            if "status" in mutant:
                continue
            started, test_seconds, chosen = time.time(), 0.0, []
            for test in mutant["tests"]:
                test_seconds += self.plan["seconds"][test] + 0.02
                if chosen and test_seconds > BUDGET:
                    break
                if test in items:
                    chosen.append(items[test])
            _, mutant["change"] = code_of(mutant)
            mutant["status"] = "not reached" if not chosen else self.child(session, mutant, chosen)
            print(
                f"{number} {mutant['status']} {time.time() - started:.0f} s: {mutant['change']}", flush=True
            )
            self.file.write_text(json.dumps(self.plan, indent=1), encoding="utf-8")
        statuses = [mutant["status"] for mutant in self.plan["mutants"]]
        print({status: statuses.count(status) for status in sorted(set(statuses))})
        return True

    def child(self, session: pytest.Session, mutant: dict[str, Any], chosen: list[pytest.Item]) -> str:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            failed = []

            class Watch:
                def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                    if report.failed:
                        os._exit(1)
                    failed.append(report)

            try:
                if not replace(code_of(mutant)[0]):
                    os._exit(3)
                session.config.pluginmanager.register(Watch())
                for index, item in enumerate(chosen):
                    next_item = chosen[index + 1] if index + 1 < len(chosen) else None
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=next_item)
                os._exit(0)
            except BaseException:
                os._exit(1)
        deadline = time.time() + 6 * BUDGET + 60  # a mutant that loops for ever is killed by that
        while time.time() < deadline:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                ending = os.waitstatus_to_exitcode(status)
                return {0: "survived", 3: "no function"}.get(ending, "killed")
            time.sleep(0.02)
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return "killed"


if __name__ == "__main__":
    action, *words = sys.argv[1:]
    if action == "draw":
        draw(int(words[0]), Path(words[1]))
    else:
        plugin = {"hits": Hits, "kill": Kill}[action](Path(words[0]))
        quiet = ["-p", "no:cacheprovider", "-p", "no:xdist", "-W", "ignore", "-q"]
        sys.exit(pytest.main([*quiet, *words[1:]], plugins=[plugin]))
