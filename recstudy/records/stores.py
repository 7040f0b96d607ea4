"""Open object stores (S3, Google Cloud Storage) by their URIs, and hide secrets in URIs.

`mirror.py` reads and writes objects through pyarrow, which Ray Tune installs.
"""

import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from recstudy.base.errors import ConfigError, StorageError

# up to the last @, because a password may contain @; a port is no password
PASSWORD = re.compile(r"^([^:/@]*:)(?!\d*/).*@", re.DOTALL)
# URI parameters that name a store or database and how to connect. Any other parameter may be a secret.
PUBLIC_PARAMETERS = {
    "region", "scheme", "endpoint_override", "allow_bucket_creation", "allow_bucket_deletion",
    "background_writes", "smart_defaults", "tls_ca_file_path", "tls_verify_certificates",
    "retry_limit_seconds", "project_id", "user", "host", "port", "charset", "driver", "sslmode",
    "connect_timeout", "application_name",
}  # fmt: skip
SCHEMES = ("s3", "gs", "local")
PROBE = ".probe-"
# Seconds until a store without an answer is refused at the start. Google's client would try for 15 minutes.
ANSWER_S = 60.0


def is_uri(text: str) -> bool:
    """Return whether this is the URI of an object store and not a local folder."""
    return "://" in text and not text.startswith("file://")


def without_secrets(word: str) -> str:
    """Return a URI with `***` for its password and for each parameter that may be a secret.

    A word that is no URI is returned unchanged.
    """
    scheme, slashes, rest = word.partition("://")
    if not slashes:
        return word
    place = re.split("[?#]", rest, maxsplit=1)[0]
    query = re.sub("[^?#&;]+", lambda match: _parameter(match[0]), rest[len(place) :])
    return "".join([scheme, slashes, PASSWORD.sub(r"\1***@", place), query])


def _parameter(text: str) -> str:
    name, equals, _ = text.partition("=")
    return text if name in PUBLIC_PARAMETERS else f"{name}=***" if equals else "***"


def filesystem(uri: str) -> tuple[Any, str]:
    """Return the pyarrow file system of a URI and the folder in it.

    Raises:
        ConfigError: The scheme of the URI is not supported, or the URI contains a secret.
        StorageError: The store does not answer, or refuses access.
    """
    if (redacted_uri := without_secrets(uri)) != uri:
        raise ConfigError(
            f"a results URI must not contain a password or a key, because records name it: {redacted_uri}."
            " Give credentials in the store's environment variables, such as AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY."
        )
    from pyarrow import fs

    if (scheme := urlsplit(uri).scheme) not in SCHEMES:
        raise ConfigError(
            f"results at {uri}: unsupported URI scheme '{scheme}'. Known: {', '.join(SCHEMES)}."
        )
    try:
        store, path = fs.FileSystem.from_uri(uri)
    except OSError as error:
        raise StorageError(_refused(uri, first_line(error))) from None
    except ValueError as error:
        raise ConfigError(f"results at {uri}: {first_line(error)}") from None
    if not path:
        raise ConfigError(
            f"results at {uri}: the URI has no bucket or folder. Example:"
            f" {uri.partition('://')[0]}://bucket/results"
        )
    ask(uri, lambda: store.get_file_info(path))
    return store, path


def write_object(store: Any, key: str, content: bytes) -> None:
    """Write one object as a whole."""
    if store.type_name == "local":  # object stores need no folders
        store.create_dir(key.rpartition("/")[0], recursive=True)
    with store.open_output_stream(key, compression=None) as stream:
        stream.write(content)


def ask(uri: str, question: Callable[[], object]) -> None:
    """Ask a store, and wait at most `ANSWER_S` seconds.

    Args:
        uri: The URI for the message.
        question: Calls the store.

    Raises:
        StorageError: The store does not answer in time, or `question` raises any error.
    """
    failures = [f"no answer in {ANSWER_S:.0f} s"]

    def answer() -> None:
        try:
            question()
            failures.clear()
        except Exception as error:
            failures[0] = first_line(error)

    thread = threading.Thread(target=answer, daemon=True)  # a daemon, so that the program can exit
    thread.start()
    thread.join(ANSWER_S)
    if failures:
        raise StorageError(_refused(uri, *failures))


def _refused(uri: str, reason: str) -> str:
    return (
        f"cannot use the results store {uri} ({reason}). Give an existing bucket or folder, and set"
        f" credentials with write access in the environment variables of the {urlsplit(uri).scheme} client."
    )


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
