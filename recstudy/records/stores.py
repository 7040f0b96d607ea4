"""Object stores by their URIs, through pyarrow (s3, gs, abfs, hdfs) or the fsspec packages that are installed."""

import re
import threading
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from recstudy.errors import ConfigError, StorageError

PASSWORD = re.compile(r"^([^:/@]*:)(?!\d*/).*@", re.DOTALL)  # to the last @, for it may hold others; a port is none
CHAINED = re.compile(r"::(?=[\w+.-]+://)")  # fsspec's URIs within URIs
# The parameters of a URI that say where a store or a database is, and how it is reached. Any other may be a secret.
PLAIN = {
    "region", "scheme", "endpoint_override", "allow_bucket_creation", "allow_bucket_deletion", "background_writes",
    "smart_defaults", "tls_ca_file_path", "tls_verify_certificates", "retry_limit_seconds", "project_id",
    "blob_storage_authority", "dfs_storage_authority", "enable_tls", "credential_kind", "tenant_id", "client_id",
    "replication", "buffer_size", "default_block_size",
    "user", "host", "port", "charset", "driver", "sslmode", "connect_timeout", "application_name",
}  # fmt: skip
PROBE = ".probe-"
ANSWER_S = 60.0  # a store that is silent for so long at the start is refused; Google's client would try for 15 minutes


def is_uri(text: str) -> bool:
    """Return whether this names an object store, and not a folder here."""
    return "://" in text and not text.startswith("file://")


def without_secrets(word: str) -> str:
    """Return a word with three stars for the password of a URI in it and for each of its parameters that may be a secret."""
    return "::".join(map(_masked, CHAINED.split(word)))


def _masked(uri: str) -> str:
    scheme, slashes, rest = uri.partition("://")
    if not slashes:
        return uri
    place = re.split("[?#]", rest, maxsplit=1)[0]
    told = re.sub("[^?#&;]+", lambda found: _parameter(found[0]), rest[len(place) :])
    return "".join([scheme, slashes, PASSWORD.sub(r"\1***@", place), told])


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
            f"a results URI must not hold a password or a key, because the records name it: {shown}. "
            "Give credentials as the store's own variables, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    from pyarrow import fs

    try:
        store, path = fs.FileSystem.from_uri(uri)
    except OSError as error:
        raise StorageError(_refused(uri, first_line(error))) from None
    except ValueError as error:
        if "Unrecognized filesystem type" not in str(error):
            raise ConfigError(f"results at {uri}: {first_line(error)}") from None
        store, path = _of_fsspec(uri)
    if not path:
        raise ConfigError(f"results at {uri}: it names no bucket or folder, such as {uri.partition('://')[0]}://bucket/results")
    _ask(uri, lambda: store.get_file_info(path))
    return store, path


def _of_fsspec(uri: str) -> tuple[Any, str]:
    import fsspec
    from pyarrow import fs

    try:
        store, path = fsspec.core.url_to_fs(uri, use_listings_cache=False)  # others write there too
    except ImportError as error:
        raise ConfigError(f"results at {uri}: {first_line(error)}, here and on every node.") from None
    except ValueError:
        known = "file, s3, gs, abfs, hdfs, and those of fsspec, each with its package (such as sftp: paramiko)"
        raise ConfigError(f"results at {uri}: unsupported URI scheme '{urlsplit(uri).scheme}'. Known: {known}.") from None
    except Exception as error:  # of whatever kind its package raises: some connect at once
        raise StorageError(_refused(uri, first_line(error))) from None
    return fs.PyFileSystem(fs.FSSpecHandler(store)), path


def write_object(store: Any, key: str, content: bytes) -> None:
    """Write one object, in one piece. Where the store has folders, its folder is made."""
    try:
        stream = store.open_output_stream(key, compression=None)
    except FileNotFoundError:
        store.create_dir(key.rpartition("/")[0], recursive=True)
        stream = store.open_output_stream(key, compression=None)
    with stream:
        stream.write(content)


def check(uri: str, store: Any, folder: str) -> None:
    """Refuse a store that this process cannot write, read and delete in (StorageError)."""
    key, token = f"{folder}/{PROBE}{uuid.uuid4().hex}", uuid.uuid4().bytes

    def probe() -> None:
        write_object(store, key, token)
        with store.open_input_stream(key) as stream:
            if bytes(stream.read()) != token:
                raise OSError("what was written is not what is read")
        store.delete_file(key)

    _ask(uri, probe)


def _ask(uri: str, question: Callable[[], object]) -> None:
    """Refuse a store that gives no answer in time, or an error of whatever kind its package raises (StorageError)."""
    failed = [f"no answer in {ANSWER_S:.0f} s"]

    def ask() -> None:
        try:
            question()
            failed.clear()
        except Exception as error:
            failed[:] = [first_line(error)]

    asking = threading.Thread(target=ask, daemon=True)  # which an end of the program does not wait for
    asking.start()
    asking.join(ANSWER_S)
    if failed:
        raise StorageError(_refused(uri, failed[0]))


def _refused(uri: str, reason: str) -> str:
    return (
        f"cannot use the results store {uri} ({reason}). Give a bucket or folder that exists, and credentials that may write "
        f"to it, as the {urlsplit(uri).scheme} client expects them in the environment."
    )


def first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
