"""Helpers for tests that run experiments: wait for something, and compare whole stores."""

import json
import time

# The seconds, and the digest of a file that has the seconds in it.
TIMES = ("seconds", "sha256")


def contents(store):
    """All records by file name, without the times, which differ from run to run."""
    found = {}
    for path in sorted(store.folder.glob("*/*.json")):
        record = json.loads(path.read_text())
        found[path.name] = {k: v for k, v in record.items() if k not in TIMES}
    return found


def wait_for(condition, seconds=60.0):
    """Return as soon as the condition holds; fail if it does not within the given seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
