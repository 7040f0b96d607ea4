"""Why a run failed: one of `FAILURES`, from what was raised."""

import errno

import torch

from recstudy.errors import DataError, StorageError
from recstudy.records.leases import LeaseLost

STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)

# How torch says it on a CPU (a plain RuntimeError), and CUDA where the allocator is not the one to notice.
NO_MEMORY = ("DefaultCPUAllocator", "not enough memory", "can't allocate memory", "CUDA error: out of memory")


def failure_class(error: BaseException) -> str:
    """The class of an exception that ended a run."""
    if isinstance(error, LeaseLost):
        return "lost node"
    if isinstance(error, DataError):
        return "data"
    if isinstance(error, StorageError) or (isinstance(error, OSError) and error.errno in STORAGE):
        return "storage"
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return "out of memory"
    if isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY):
        return "out of memory"
    return "code"
