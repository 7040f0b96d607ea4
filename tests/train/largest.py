"""How much memory a computation needs, by what torch's operations give."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Largest(TorchDispatchMode):
    """Bytes of the largest tensor that any operation gave."""

    bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for part in found if isinstance(found, (tuple, list)) else [found]:
            if isinstance(part, torch.Tensor):
                self.bytes = max(self.bytes, part.untyped_storage().nbytes())
        return found
