import errno

import pytest
import torch

from recstudy.errors import FAILURES, DataError, StorageError
from recstudy.records.leases import LeaseLost
from recstudy.train.trial import failure_class

TOO_MUCH = 2**60  # bytes


def of_torch() -> Exception:
    with pytest.raises(RuntimeError, match="alloc") as raised:
        torch.empty(TOO_MUCH, dtype=torch.uint8)
    return raised.value


def of_python() -> Exception:
    with pytest.raises(MemoryError, match=r"^$") as raised:
        bytearray(TOO_MUCH)
    return raised.value


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (of_torch, "out of memory"),
        (of_python, "out of memory"),
        (lambda: torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"), "out of memory"),
        (lambda: RuntimeError("CUDA error: out of memory"), "out of memory"),
        (lambda: DataError("x.png is damaged"), "data"),
        (lambda: StorageError("cannot write"), "storage"),
        (lambda: LeaseLost("another process has taken over"), "lost node"),
        (lambda: OSError(errno.ENOSPC, "No space left on device"), "storage"),
        (lambda: FileNotFoundError(errno.ENOENT, "No such file"), "code"),
        (lambda: RuntimeError("mat1 and mat2 shapes cannot be multiplied"), "code"),
    ],
)
def test_what_was_raised_tells_the_class(error, kind):
    assert failure_class(error()) == kind
    assert kind in FAILURES
