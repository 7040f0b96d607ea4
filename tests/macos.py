"""A Python without what only Linux has: `python macos.py SHIM [-I] [-S] (-m MODULE | -c CODE | FILE) [ARGUMENT...]`.

SHIM is the program that calls this one, which other processes find as `sys.executable`. The names are those that
typeshed has for Linux alone, and that recstudy or its packages could use.
"""

import os
import resource
import runpy
import select
import signal
import socket
import sys
from pathlib import Path

LINUX_ONLY = {
    os: "sched_getaffinity sched_setaffinity sched_getscheduler pidfd_open memfd_create eventfd eventfd_read eventfd_write pipe2"
    " posix_fallocate posix_fadvise fdatasync copy_file_range splice getrandom getresuid setresuid getxattr setxattr listxattr"
    " removexattr setns unshare timerfd_create O_DIRECT O_TMPFILE O_PATH O_NOATIME",
    signal: "SIGRTMIN SIGRTMAX SIGPOLL SIGPWR SIGSTKFLT SIGCLD sigtimedwait sigwaitinfo",
    select: "epoll EPOLLIN",
    socket: "AF_NETLINK AF_PACKET AF_ALG AF_VSOCK SO_PEERCRED SO_BINDTODEVICE SOCK_CLOEXEC SOCK_NONBLOCK",
    resource: "prlimit RLIMIT_SIGPENDING RUSAGE_THREAD",
}


def refuse(event: str, arguments: tuple) -> None:
    """Stand for a machine without /proc, /sys and prctl."""
    if event == "open" and str(arguments[0]).startswith(("/proc/", "/sys/")):
        raise FileNotFoundError(2, "No such file or directory", arguments[0])
    if event == "ctypes.dlsym" and arguments[1] == "prctl":
        raise AttributeError(arguments[1])


if __name__ == "__main__":
    for module, names in LINUX_ONLY.items():
        for name in names.split():
            if hasattr(module, name):
                delattr(module, name)
    sys.addaudithook(refuse)
    sys.executable, *words = sys.argv[1:]
    while words[0] in ("-I", "-S"):
        sys.platform = (
            "darwin"  # of the guard of a command. In other processes, Python's own modules would miss more
        )
        words = words[1:]
    if words[0] in ("-c", "-m"):
        (option, what), sys.argv = words[:2], words[:1] + words[2:]
        sys.path.insert(0, str(Path.cwd()))
        if option == "-c":
            exec(what, {"__name__": "__main__"})
        else:
            runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv = words
        sys.path[0] = str(Path(words[0]).resolve().parent)
        runpy.run_path(words[0], run_name="__main__")
