"""Processes that do not outlive us."""

import ctypes
import os
import signal
import subprocess

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


def start(command, **options):
    """Starts a process out of reach of Ctrl-C (we end it in order), that ends when we are killed."""
    parent = os.getpid()

    def prepare():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL,
                            preexec_fn=prepare, **options)
