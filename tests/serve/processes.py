"""`softbins serve` as a process of its own, which always ends."""

import contextlib
import os
import signal
import subprocess
import sys

PROCESS = [sys.executable, "-c", "from softbins.cli import main; main()", "serve"]


@contextlib.contextmanager
def serving(model_file, *arguments):
    """Start a service on any free port; the process and its address."""
    command = [*map(str, PROCESS), str(model_file), "--port", "0", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            line = process.stdout.readline()
            assert " at http://" in line, line + process.stderr.read()
            yield process, line.rpartition(" ")[2].strip()
        finally:
            process.kill()


def terminate(process):
    """Send SIGTERM."""
    process.send_signal(signal.SIGTERM)
