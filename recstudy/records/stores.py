"""Object stores by their URIs: S3 and Google Cloud Storage, through pyarrow, which Ray Tune brings."""

import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from recstudy.errors import ConfigError, StorageError

# to the last @, for it may hold others; a port is none
PASSWORD = re.compile(r"^([^:/@]*:)(?!\d*/).*@", re.DOTALL)
# The parameters of a URI that say where a store or a database is, and how it is reached. Any other may be a
# secret.
PLAIN = {
    "region", "scheme", "endpoint_override", "allow_bucket_creation", "allow_bucket_deletion", "background_writes",
    "smart_defaults", "tls_ca_file_path", "tls_verify_certificates", "retry_limit_seconds", "project_id",
    "user", "host", "port", "charset", "driver", "sslmode", "connect_timeout", "application_name",
}  # fmt: skip
SCHEMES = ("s3", "gs", "local")
PROBE = ".probe-"
# a store that is silent for so long at the start is refused; Google's client would try for 15 minutes
ANSWER_S = 60.0


def is_uri(text: str) -> bool:
    """Return whether this names an object store, and not a folder here."""
    return "://" in text and not text.startswith("file://")


def without_secrets(word: str) -> str:
    """Return a word with three stars for the password of a URI in it and for each of its parameters that may
    be a secret.
    """
    scheme, slashes, rest = word.partition("://")
    if not slashes:
        return word
    place = re.split("[?#]", rest, maxsplit=1)[0]
    query = re.sub("[^?#&;]+", lambda match: _parameter(match[0]), rest[len(place) :])
    return "".join([scheme, slashes, PASSWORD.sub(r"\1***@", place), query])


def _parameter(text: str) -> str:
    name, equals, _ = text.partition("=")
    return text if name in PLAIN else f"{name}=***" if equals else "***"


def filesystem(uri: str) -> tuple[Any, str]:
    """Return the store and the folder in it that a URI names.

    Raises:
        ConfigError: the URI's scheme is not supported, or the URI holds a secret.
        StorageError: the store does not answer, or not us.
    """
    if (shown := without_secrets(uri)) != uri:
        raise ConfigError(
            f"a results URI must not hold a password or a key, because the records name it: {shown}. Give"
            " credentials as the store's own variables, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
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
            f"results at {uri}: it names no bucket or folder, such as"
            f" {uri.partition('://')[0]}://bucket/results"
        )
    ask(uri, lambda: store.get_file_info(path))
    return store, path


def write_object(store: Any, key: str, content: bytes) -> None:
    """Write one object, in one piece. Where the store has folders, its folder is made."""
    if store.type_name == "local":
        store.create_dir(key.rpartition("/")[0], recursive=True)
    with store.open_output_stream(key, compression=None) as stream:
        stream.write(content)


def ask(uri: str, question: Callable[[], object]) -> None:
    """Refuse a store that gives no answer in time, or an error of whatever kind its package raises
    (StorageError).
    """
    failures = [f"no answer in {ANSWER_S:.0f} s"]

    def answer() -> None:
        try:
            question()
            failures.clear()
        except Exception as error:
            failures[0] = first_line(error)

    thread = threading.Thread(target=answer, daemon=True)  # which an end of the program does not wait for
    thread.start()
    thread.join(ANSWER_S)
    if failures:
        raise StorageError(_refused(uri, *failures))


def _refused(uri: str, reason: str) -> str:
    return (
        f"cannot use the results store {uri} ({reason}). Give a bucket or folder that exists, and credentials"
        f" that may write to it, as the {urlsplit(uri).scheme} client expects them in the environment."
    )


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
