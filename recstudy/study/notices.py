"""What a webhook or a mailbox is told of a study while it runs: a run that fails, hangs or diverges, and the end.

Told by a thread of its own, so that an address that is slow or gone costs the study nothing but a line.
"""

import json
import os
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from functools import partial
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from recstudy.errors import ConfigError

MOST = 20  # runs that are told of; what fails more often has one cause
ANSWER_S, PATIENCE_S = 10.0, 15.0  # for an answer, and at the end for what is not told yet
MAIL, SENDMAIL = "mail:", "sendmail"
BESIDE = ("/usr/sbin", "/usr/lib")  # where systems have it, and a user's PATH often does not lead


class Notices:
    """Tells an address, as JSON: study, preset, event, counts, command, and `text` in words, which chats show; or mails them.

    Args:
        url: of the webhook, or `mail:ADDRESS`; nothing is told where it is empty.
        about: what every notice has: study, preset and command.
        warn: is told, once, that the address cannot be.

    Raises:
        ConfigError: it is no address, or there is no sendmail to mail with.
    """

    def __init__(
        self, url: str = "", about: Mapping[str, str] | None = None, warn: Callable[[str], object] = lambda line: None
    ) -> None:
        self.url, self.about, self.warn, self.failures = url, dict(about or {}), warn, 0
        if url.startswith(MAIL):
            self._host = address = url.removeprefix(MAIL)
            self._send = partial(_mail, _sendmail(address), address)
        else:
            self._host = _host(url) if url else ""
            self._send = partial(_post, url)
        self._waiting: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="notices", daemon=True)
        if url:
            self._thread.start()

    def run_ended(self, run: Any, status: str, counts: Mapping[str, int], error: str = "") -> None:
        """Told where it `failed` or `diverged`."""
        if status not in ("failed", "diverged"):
            return
        self.failures += 1
        if self.failures <= MOST:
            who = {"id": run.id, "label": run.label, "seed": run.seed}
            self._tell(f"run {status}", f"{run.label}, seed {run.seed} {status}", counts, run=who, error=error)

    def ended(self, counts: Mapping[str, int], error: str = "") -> None:
        """The study has ended, or was stopped by an error."""
        self._tell("study stopped" if error else "study ended", "stopped" if error else "ended", counts, error=error)

    def close(self) -> None:
        """Wait a while until all is told."""
        if self._thread.is_alive():
            self._waiting.put(None)
            self._thread.join(PATIENCE_S)

    def _tell(self, event: str, what: str, counts: Mapping[str, int], **more: Any) -> None:
        known = {name: value for name, value in more.items() if value}
        said = ", ".join(f"{count:,} {name}" for name, count in counts.items())
        error = f": {more['error']}" if more.get("error") else ""
        text = f"{self.about.get('study', '')} ({self.about.get('preset', '')}): {what}{error} ({said})"
        self._waiting.put({**self.about, "event": event, "counts": dict(counts), **known, "text": text})

    def _work(self) -> None:
        warned = False
        while (notice := self._waiting.get()) is not None:
            try:
                self._send(notice)
            except Exception as error:  # whatever the address or the network does, the study goes on
                if not warned:
                    self.warn(f"--notify: {self._host} could not be told, and the study goes on: {error}")
                warned = True


def _post(url: str, notice: dict[str, Any]) -> None:
    with urlopen(Request(url, json.dumps(notice).encode(), {"Content-Type": "application/json"}), timeout=ANSWER_S):
        pass


def _mail(sendmail: str, address: str, notice: dict[str, Any]) -> None:
    """Hand a notice to the system's mailer: its text, the command, and what a webhook would get."""
    letter = EmailMessage()
    letter["To"] = address
    letter["Subject"] = " ".join(f"recstudy: {notice['study']} ({notice['preset']}): {notice['event']}".split())
    letter.set_content(f"{notice['text']}\n\n{notice['command']}\n\n{json.dumps(notice, indent=1)}\n")
    done = subprocess.run(
        [sendmail, "-i", "--", address], input=bytes(letter), capture_output=True, timeout=ANSWER_S, check=False
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["without a word"]
        raise OSError(f"{sendmail} ended with {done.returncode}: {said[-1]}")


def _sendmail(address: str) -> str:
    """Return the program that mails to this address."""
    if not re.fullmatch(r"[\w.+][\w.+-]*@[\w-]+(\.[\w-]+)*", address, re.ASCII):
        raise ConfigError(f"--notify mail:ADDRESS wants one address, such as mail:ada@example.org, but got {address!r}")
    found = shutil.which(SENDMAIL, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *BESIDE)))
    if found is None:
        raise ConfigError(
            f"--notify mail:{address} needs the program {SENDMAIL}, which is neither on PATH nor in {' or '.join(BESIDE)}. "
            "Install one (msmtp, postfix), or give the address of a webhook: https://..."
        )
    return found


def _host(url: str) -> str:
    """Whom an address names; the rest of it is often the secret."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        raise ConfigError("--notify must be the address of a webhook, http://... or https://..., or mail:ADDRESS")
    return host
