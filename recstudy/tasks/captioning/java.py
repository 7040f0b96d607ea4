"""The two Java programs of the COCO caption evaluation, in pycocoevalcap's jars.

The tokenizer runs for one call. METEOR reads its tables for a quarter of a minute before it scores the first caption, so its
process stays for the next call, until `IDLE_S` pass without one; it ends with ours, whose end closes its input.
"""

import atexit
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pycocoevalcap

from recstudy.metrics.answers import NotAvailable

JARS = Path(next(iter(pycocoevalcap.__path__)))
TOKENIZER_JAR = "tokenizer/stanford-corenlp-3.4.1.jar"
METEOR_JAR = "meteor/meteor-1.5.jar"
FLAGS = ("-XX:+UseSerialGC", "-Dfile.encoding=UTF-8")  # METEOR takes 0.6 GB, with the default collector 1.2 GB
ENDS = re.compile(r"\|{3}|[\r\n]")  # of a field and of a line in METEOR's protocol
STATISTICS = 23  # numbers in METEOR's answer for one caption
LIMIT_S = 600.0  # 10,000 captions take METEOR half a minute; what takes longer than this hangs
IDLE_S = 60.0  # between two epochs' captions, and two runs' of a worker, of a small study


def penn_treebank(captions: Sequence[str]) -> list[list[str]]:
    """Tokens of each caption, lower case, by the PTBTokenizer of Stanford CoreNLP 3.4.1; punctuation is still among them.

    Line breaks inside a caption count as spaces.

    Raises:
        NotAvailable: no Java, or the jar is missing, damaged or hangs.
    """
    lines = [" ".join(caption.split()) for caption in captions]
    program = "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase", "-encoding", "UTF-8"
    with closing(_Java("-cp", _jar(TOKENIZER_JAR), *program)) as java:
        answers = java.ask_all(lines)
        if len(answers) != len(lines):
            raise NotAvailable(f"the PTB tokenizer gave {len(answers)} lines for {len(lines)}: {java.complaint()}")
    return [answer.split(" ") for answer in answers]


def meteor(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return METEOR 1.5 (English, normalised: `-l en -norm`) of a corpus of tokenised captions, as a fraction.

    Raises:
        NotAvailable: no Java, or the jar is missing, damaged or hangs.
    """
    with METEOR.answering() as java:
        pairs = zip(hypotheses, references, strict=True)
        statistics = [java.ask(_fields("SCORE", *own, hypothesis)) for hypothesis, own in pairs]
        if any(len(answer.split()) != STATISTICS for answer in statistics):
            raise NotAvailable(f"METEOR does not answer with {STATISTICS} numbers a caption but {statistics[0]!r}")
        java.ask(_fields("EVAL", *statistics))  # its answers: each caption's score, and last the corpus's
        return [float(java.ask()) for _ in statistics][-1]


def _fields(*fields: str) -> str:
    """Return a line of METEOR's protocol."""
    return " ||| ".join(ENDS.sub(" ", field) for field in fields)


def _jar(name: str) -> str:
    if not (JARS / name).exists():
        raise NotAvailable(f"{name} is missing from the package pycocoevalcap")
    return str(JARS / name)


class _Java:
    """A Java process, which ends with `close`, or after `LIMIT_S` of one answer."""

    def __init__(self, *arguments: str) -> None:
        program = shutil.which("java")
        if program is None:
            raise NotAvailable("Java is not installed (no `java` on the PATH)")
        self.complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        command, pipe = [program, *FLAGS, *arguments], subprocess.PIPE
        try:
            self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.complaints)
        except OSError as error:
            self.complaints.close()
            raise NotAvailable(f"Java does not start: {error}") from error
        self.late, self.limit = False, threading.Lock()
        self.timer: threading.Timer | None = None

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        self.complaints.close()

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Guard a block in which it answers, or is killed after `LIMIT_S`."""
        timer = self.timer = threading.Timer(LIMIT_S, lambda: self._stop(timer))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self.limit:
                self.timer = None  # one that has gone off just now stops nothing any more

    def _stop(self, timer: threading.Timer) -> None:
        with self.limit:
            if self.timer is timer:
                self.late = True
                self.process.kill()

    def ask_all(self, lines: Sequence[str]) -> list[str]:
        """Return every line of the answer to these lines, after which there is no other."""
        with self.limited():
            answer, _ = self.process.communicate("".join(f"{line}\n" for line in lines).encode(errors="replace"))
        return answer.decode(errors="replace").split("\n")[:-1]

    def ask(self, line: str | None = None) -> str:
        """Return the next line of the answer, after `line` is sent."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        answer = b""
        with suppress(BrokenPipeError):
            if line is not None:
                self.process.stdin.write(f"{line}\n".encode(errors="replace"))
                self.process.stdin.flush()
            answer = self.process.stdout.readline()
        if not answer:
            raise NotAvailable(f"METEOR does not answer: {self.complaint()}")
        return answer.decode(errors="replace").strip()

    def complaint(self) -> str:
        """Return what the process wrote to its standard error, in a line."""
        if self.late:
            return f"stopped after {LIMIT_S:g} s"
        self.process.wait()
        self.complaints.seek(0)
        lines = self.complaints.read().decode(errors="replace").splitlines()
        return next((line.strip() for line in lines if line.strip() and "WARNING" not in line), "it gives no reason")


class Meteor:
    """METEOR's process, in which one call at a time asks."""

    def __init__(self) -> None:
        self.java: _Java | None = None
        self.lock = threading.Lock()
        self.idle: threading.Timer | None = None  # ends the process, unless another call comes first

    @contextmanager
    def answering(self) -> Iterator[_Java]:
        """Yield the process that is there, or a new one; an error in the block ends it, because it may owe an answer.

        Raises:
            NotAvailable: no Java, or METEOR's jar is missing.
        """
        with self.lock:
            if self.idle is not None:
                self.idle.cancel()
            self.idle = None  # one that has gone off meanwhile, and waits for the lock, ends nothing
            if self.java is not None and self.java.process.poll() is not None:  # killed meanwhile, as for memory
                self._end()
            if self.java is None:
                self.java = _Java("-Xmx2G", "-jar", _jar(METEOR_JAR), "-", "-", "-stdio", "-l", "en", "-norm")
            try:
                with self.java.limited():
                    yield self.java
            except BaseException:
                self._end()
                raise
            idle = self.idle = threading.Timer(IDLE_S, lambda: self.stop(idle))
            idle.daemon = True
            idle.start()

    def stop(self, idle: threading.Timer | None = None) -> None:
        """End the process; where a timer asks for it, only if no call has come since it was set."""
        with self.lock:
            if idle is None or idle is self.idle:
                self._end()

    def _end(self) -> None:
        if self.java is not None:
            self.java.close()
            self.java = None


METEOR = Meteor()
atexit.register(METEOR.stop)
