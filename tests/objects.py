"""A real object store for the tests: a server of Amazon's protocol on this machine."""

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyarrow.fs import S3FileSystem

BUCKET = "results"
SERVE = "import sys; sys.argv[1:] = ['-p', '{}']; from moto.server import main; main()"
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class ObjectStore:
    """A bucket.

    Args:
        port: of its server.
        make: the bucket, which is not there yet.
    """

    def __init__(self, port: int, make: bool = True) -> None:
        self.port = port
        endpoint = f"127.0.0.1:{port}"
        self.query = f"?scheme=http&endpoint_override={endpoint.replace(':', '%3A')}&region=us-east-1"
        self.fs = S3FileSystem(
            scheme="http", endpoint_override=endpoint, region="us-east-1", allow_bucket_creation=True
        )
        if make:
            self.fs.create_dir(BUCKET)

    def uri(self, folder: str, bucket: str = BUCKET) -> str:
        return f"s3://{bucket}/{folder}{self.query}"


@contextmanager
def serving() -> Iterator[ObjectStore]:
    """The store, as long as the block runs, with what this process and its children need to write to it."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", SERVE.format(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    old_credentials = {name: os.environ.get(name) for name in CREDENTIALS}
    os.environ.update(CREDENTIALS)
    try:
        _until_it_answers(f"http://127.0.0.1:{port}/")
        yield ObjectStore(port)
    finally:
        server.kill()
        server.wait()
        for name, value in old_credentials.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextmanager
def proxied(store: ObjectStore, on_request: Callable[[str], None]) -> Iterator[ObjectStore]:
    """The same store behind a proxy that calls `on_request` with a request's first line, such as "PUT /...", and
    then sends it on.
    """

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", store.port)) as server:
            threading.Thread(target=forward, args=(server, client), daemon=True).start()
            forward(client, server)

    def forward(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(1 << 16):
                if content.startswith((b"PUT ", b"GET ", b"HEAD ")):
                    on_request(content.split(b"\n")[0].decode())
                target.sendall(content)
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield ObjectStore(listening.getsockname()[1], make=False)
        listening.shutdown(socket.SHUT_RDWR)


def _until_it_answers(url: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the object store's server does not answer"
            time.sleep(0.1)
