"""A user's modules: found, sent and loaded, without Ray."""

import json
import shutil
import sys
import textwrap
from pathlib import Path

import pytest
from processes import run_python

import recstudy
from recstudy.base.errors import ConfigError
from recstudy.plugins import import_object, loaded, reading, user_files_of
from recstudy.recursive import FAMILIES
from recstudy.study.testing import tiny_study, write_study

ROOT = Path(recstudy.__file__).parents[1]
FAMILY = """
from typing import Literal
from recstudy.recursive import FAMILIES, ModelConfig

@FAMILIES.add("{name}")
class Model(ModelConfig):
    family: Literal["{name}"] = "{name}"
    @property
    def title(self):
        return "{title}"
"""


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


@pytest.fixture(autouse=True)
def nothing_left():
    """Each test ends with the registries and the modules that it began with."""
    families, path = dict(FAMILIES.complete()), list(sys.path)
    yield
    assert dict(FAMILIES) == families
    assert sys.path == path
    assert {"mine", "late", "good", "bad"}.isdisjoint(sys.modules)


def family(name: str, title: str = "one") -> str:
    return FAMILY.format(name=name, title=title)


def planned(folder: Path, *modules: str) -> list[dict[str, str]]:
    """What the plan of a study says of these modules."""
    return user_files_of(folder, modules).record


def test_imports_of_a_module_travel_with_it(tmp_path):
    """Now or later, as a package or by a string; what is installed, or nobody imports, stays."""
    write(
        tmp_path,
        study="import helpers\nfrom parts import inner\nimport numpy\nNETWORK = 'network:Net'\ndef later():\n    import late\n",
        helpers="", late="", network="", unused="",
        **{"parts/__init__": "", "parts/inner": "from . import deep\nfrom .. import no", "parts/deep": ""},
        **{"env/lib/numpy": "", "recstudy/__init__": "raise SystemError"},
    )  # fmt: skip

    files = user_files_of(tmp_path, ["study"])

    assert set(files.contents) == {
        "study.py", "helpers.py", "late.py", "network.py", "parts/__init__.py", "parts/inner.py", "parts/deep.py",
    }  # fmt: skip
    assert [record["module"] for record in files.record] == ["study"] + [""] * 6


WORKER = """
import sys
from recstudy.recursive import FAMILIES
from recstudy.plugins import import_sent

import_sent(sys.argv[1], ("lab.parts.mine",))
print(FAMILIES["mine"]().title, sys.modules["lab.parts.mine"].WORD)
"""


def test_a_worker_imports_the_copy_of_a_file_that_has_changed_since(tmp_path):
    """From a folder of packages without a file, in the encoding that it states; Ray has the study's own
    folder in `sys.path`.
    """
    home = tmp_path / "home"
    file = home / "lab/parts/mine.py"
    file.parent.mkdir(parents=True)
    file.write_bytes(("# coding: latin-1\nWORD = 'é'\n" + family("mine")).encode("latin-1"))
    folder = user_files_of(home, ["lab.parts.mine"]).copy()
    file.write_text(family("mine", "two"))
    brought = tmp_path / "worker" / folder.name  # as on another node
    shutil.copytree(folder, brought)
    write(home, worker=WORKER)

    local_run = run_python(home / "worker.py", folder)
    remote_words = home / "worker.py", f"/elsewhere/{folder.name}"
    remote_run = run_python(*remote_words, PYTHONPATH=f"{ROOT}:{brought.parent}")

    assert (local_run.stdout, remote_run.stdout) == ("one é\n", "one é\n")


def test_readers_of_two_studies_that_name_things_alike(tmp_path):
    """Each has its own, also of a module that is imported late."""
    texts = {
        version: {"mine": family("mine", version) + "\nPLACE = 'late:word'\n", "late": f"word = {version!r}"}
        for version in ("a", "b")
    }
    plans = [planned(write(tmp_path / version, **files), "mine") for version, files in texts.items()]
    titles = []
    for plan in [*plans, *plans]:
        with reading(plan, trust=True):
            titles.append((FAMILIES["mine"](family="mine").title, import_object("late:word")))

    assert titles == [("a", "a"), ("b", "b")] * 2
    assert "mine" not in FAMILIES
    assert "mine" not in sys.modules


def test_changed_file_is_read_again(tmp_path):
    plan = planned(write(tmp_path, mine=family("mine", "one")), "mine")
    with reading(plan, trust=True):
        kind = FAMILIES["mine"]
        with reading(plan, trust=True):
            assert FAMILIES["mine"] is kind
    write(tmp_path, mine=family("mine", "two"))

    with reading(plan, trust=True):
        assert FAMILIES["mine"](family="mine").title == "two"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import math\nmath.nothing\n", r"mine.py, line 2: AttributeError: module 'math' has no attribute 'nothing'"),
        ("def f(:\n", r"mine.py, line 1: SyntaxError: invalid syntax"),
        ("import broken\n", r"broken.py, line 2: ZeroDivisionError: division by zero"),
        (family("trm"), r"mine.py, line 5: ConfigError: the model family 'trm' exists in recstudy already. Give yours another name"),
        (family("x") + family("x"), r"mine.py, line 15: ConfigError: the model family 'x' is registered twice in mine"),
        ("import sys; sys.exit(3)", r"mine.py, line 1: SystemExit: 3"),
        ("from recstudy import main\n\nmain(None)\n", r"mine.py, line 3: ConfigError: mine.py calls main\(...\) whenever it is imported"),
    ],
    ids=["attribute", "syntax", "inside", "own", "twice", "exit", "starts itself"],
)  # fmt: skip
def test_import_error_is_one_line(tmp_path, text, reason):
    write(tmp_path, mine=text, broken="\n1 / 0")
    user_files = user_files_of(tmp_path, ["mine"])

    with (
        pytest.raises(ConfigError, match=f"mine cannot be imported: {reason}") as error_info,
        loaded(user_files),
    ):
        pass
    assert "\n" not in str(error_info.value)
    with (
        reading(user_files.record, trust=True),
        pytest.raises(ConfigError, match=rf"no model family 'mine': .*{reason}"),
    ):
        FAMILIES["mine"]


def test_the_other_modules_of_a_broken_study_are_there(tmp_path):
    with reading(planned(write(tmp_path, good=family("good"), bad="1 / 0"), "bad", "good"), trust=True):
        assert FAMILIES["good"](family="good").title == "one"


STUDY = (
    family("mine")
    + """
from recstudy.recursive import RunConfig
from recstudy import Study, Variant, main
from recstudy.recursive import Digits
study = Study(name="mine", presets={"quick": RunConfig(data=Digits(), model=Model())}, variants=[Variant("as it is", {})])
"""
)


def test_a_study_file_that_starts_itself_is_refused_before_ray_starts(tmp_path):
    write(tmp_path, mine=f"{STUDY}\nmain(study)\n")
    (tmp_path / "run.py").write_text("")

    done = run_python(tmp_path / "mine.py", "--results", tmp_path / "results", code=2)

    assert done.stderr.startswith("ConfigError: mine.py, line 17, calls main(...) whenever it is imported")
    assert done.stderr.endswith('Put the call under: if __name__ == "__main__":\n')


def test_study_file_imported_by_another_module_is_reported(tmp_path):
    write(tmp_path, mine=f"{STUDY}\nimport other\n", other="import mine\n")

    done = run_python(tmp_path / "mine.py", code=2)

    assert (
        f"the model family 'mine' is registered twice: {tmp_path / 'mine.py'} runs as the study and is also imported by"
        in done.stderr
    )


def test_a_network_of_the_study_file_itself(tmp_path):
    """`network = "mine:Net"`: the file runs as `__main__`, and is not run again."""
    write(
        tmp_path,
        mine='from recstudy.plugins import import_object\n\nclass Net: ...\n\nprint(import_object("mine:Net") is Net)\n',
    )

    assert run_python(tmp_path / "mine.py").stdout == "True\n"


SENDER_STUDY = """
import threading
from ray import cloudpickle
from recstudy import Metric, Study
from recstudy.programs.base import PROGRAMS

LOCK = threading.Lock()  # which cannot be pickled

def train(run):
    with LOCK:
        return {"accuracy": 1.0}

Study("mine", program=train, settings={}, metrics={"accuracy": Metric()}, variants=[], seeds=1)
(program,) = cloudpickle.loads(cloudpickle.dumps(list(PROGRAMS.values())))
print(program.name, program.function is train)
"""


def test_a_function_of_a_file_is_sent_by_its_name(tmp_path):
    done = run_python(write(tmp_path, mine=SENDER_STUDY) / "mine.py")

    assert done.stdout == "mine.train True\n"


def test_registration_at_a_prompt_stays_in_its_process():
    code = (
        family("mine")
        + "from recstudy.plugins import current_files, sent_files\nprint(current_files().modules)\nsent_files()"
    )
    done = run_python("-c", code, code=2)

    assert done.stdout == "()\n"
    assert done.stderr.startswith(
        "ConfigError: other processes cannot import what was registered at a prompt"
    )


def install(folder: Path, package: str, text: str) -> None:
    """As pip would: a module, and what it is told of."""
    write(folder, **{package: text})
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[recstudy.plugins]\n{package} = {package}\n")


def test_installed_packages_offer_theirs(tmp_path):
    install(tmp_path, "offered", family("offered"))
    install(tmp_path, "spoiled", "\nimport nowhere_at_all\n")
    ask = "from recstudy.recursive import FAMILIES; print('offered' in FAMILIES, FAMILIES['offered']); FAMILIES['other']"

    write(tmp_path / "there", ask=ask)
    done = run_python(tmp_path / "there/ask.py", code=2, PYTHONPATH=f"{tmp_path}:{ROOT}")

    assert done.stdout == "True <class 'offered.Model'>\n"
    assert "no model family 'other': The plug-in 'spoiled' of spoiled " in done.stderr
    assert ". There are " in done.stderr
    assert "The plug-in 'spoiled' of spoiled cannot be imported: " in done.stderr
    assert "ModuleNotFoundError: No module named 'nowhere_at_all'." in done.stderr


def test_a_copy_of_the_files_that_is_not_whole_is_made_whole(tmp_path, monkeypatch):
    """On a node where somebody tidied up."""
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path))
    files = user_files_of(write(tmp_path / "home", mine="import late", late="late = 1"), ["mine"])
    (files.copy() / "late.py").unlink()

    assert (files.copy() / "late.py").read_text() == "late = 1"


def test_a_study_of_a_package_is_known_by_its_whole_name(tmp_path):
    write(
        tmp_path / "lab",
        __init__="",
        parts=family("mine"),
        study="from . import parts\nfrom recstudy.plugins import current_files\nprint(current_files().modules, sorted(current_files().contents))\n",
    )
    done = run_python("-m", "lab.study", folder=tmp_path)

    assert done.stdout == "('lab.parts',) ['lab/__init__.py', 'lab/parts.py']\n"


# ------------------------------------------------------------------------------------------------------------- without trust

SPY = """
from pathlib import Path
Path({mark!r}).touch()
"""


@pytest.fixture
def spy(tmp_path) -> tuple[Path, Path]:
    """Write a module that leaves a mark when it is imported; return its file and the mark."""
    mark = tmp_path / "imported"
    home = write(tmp_path / "home", mine=SPY.format(mark=str(mark)) + family("mine"))
    return home / "mine.py", mark


def reason(plan: list[dict[str, str]], trust: bool = False) -> str:
    with reading(plan, trust), pytest.raises(ConfigError, match="mine") as error:
        FAMILIES["mine"]
    return str(error.value)


def test_readers_import_nothing_without_trust(spy):
    file, mark = spy
    plan = planned(file.parent, "mine")
    message = f"no model family 'mine': not imported: {file}; --trust imports it."
    assert reason(plan).startswith(message)
    assert not mark.exists()
    with reading(plan, trust=True):
        assert "mine" in FAMILIES
    mark.unlink()
    assert reason(plan).startswith(message)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("plan", "untrusted", "trusted"),
    [
        ([{"module": "mine", "file": "mine.py"}], "mine.py; --trust imports it", "mine.py does not exist"),
        (
            [{"module": "mine", "file": "/gone/mine.py", "digest": "0"}],
            "/gone/mine.py; --trust",
            "/gone/mine.py does not exist",
        ),
        (
            [{"module": "nowhere", "file": ""}],
            "nowhere; --trust imports it",
            "nowhere cannot be imported: ModuleNotFoundError",
        ),
    ],
    ids=["here", "gone", "no-file"],
)
def test_modules_that_are_not_where_the_plan_says(spy, monkeypatch, plan, untrusted, trusted):
    file, mark = spy
    monkeypatch.chdir(file.parent)

    assert f"not imported: {untrusted}" in reason(plan)
    assert trusted in reason(plan, trust=True)
    assert not mark.exists()


def test_the_commands_import_nothing_by_default_and_say_so(spy, tmp_path, typed):
    file, mark = spy
    results = write_study(tmp_path / "results", tiny_study())
    folder = next((results.root / "studies").glob("*/*"))
    content = json.loads((folder / "plan.json").read_text()) | {"plugins": planned(file.parent, "mine")}
    (folder / "plan.json").write_text(json.dumps(content))

    for word, code in (("report", 0), ("evaluate", 1)):  # its runs kept no settings
        output = typed(word, folder, code=code).replace("\n", "").replace(" ", "")
        assert f"ot imported: {file}; --trust imports it".replace(" ", "") in output, word
    assert "not imported: " in (folder / "report/report.html").read_text()
    assert len(recstudy.load(folder).runs)
    assert not mark.exists()

    typed("report", "--trust", folder)
    assert mark.exists()
