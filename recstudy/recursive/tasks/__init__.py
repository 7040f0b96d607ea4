"""The built-in tasks. Configs, metrics and the training loop find them by name in `TASKS`.

Importing this package loads neither numpy nor torch.
"""
