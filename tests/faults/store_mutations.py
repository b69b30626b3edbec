"""Damage to the files of a paper's store: a generator of mutants, whatever the files hold.

Nothing here knows a field by name: an edit goes to a random place of a random file. Edits of the
first kind change a file after it was written, as a disk, an editor or a careless copy would.
Those of the second kind renew its digest, as by somebody who knows the format.
"""

import json
import math
import os
import shutil
from pathlib import Path

from softbins._core.model_file import read
from softbins.paper.run.sealed_json import seal, unseal
from tests.faults.mutations import edit_json, file_content, mutants

HUGE_FILE = 2**36
FOREIGN = [b"", b"\n", b"null", b"[]", b"{}", b'{"format": 2}', b"[" * 100_000, b"1" * 10_000]
FOREIGN += [b"\0" * 1000, b"\xff\xfe{\0}\0", b"epoch,loss\n1,0.5\n"]
NUMBERS = [math.nan, math.inf, -math.inf, 10**400, 1e308, -1e308, 2**63]


def store_files(folder):
    """All files of a store but its locks, which hold nothing."""
    found = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return [path for path in found if path.suffix != ".lock"]


# After it was written


def damage(path, others, chance):
    """Damage a file in a random way, and say how."""
    kinds = [*BYTE_EDITS, *PLACE_EDITS, other_file]
    kinds += [json_edit, json_number] if path.suffix in (".json", ".progress") else []
    edit = chance.choice(kinds)
    return f"{edit.__name__} {edit(path, others, chance)}"


def truncated(path, others, chance):
    data = path.read_bytes()
    length = chance.randrange(len(data))
    path.write_bytes(data[:length])
    return f"to {length} of {len(data)} bytes"


def bit_flipped(path, others, chance):
    data = bytearray(path.read_bytes())
    place, bit = chance.randrange(len(data)), chance.randrange(8)
    data[place] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {place}"


def bytes_replaced(path, others, chance):
    data = path.read_bytes()
    start, length = chance.randrange(len(data)), chance.choice([1, 10, 1000])
    end = chance.choice([start, start + length])
    new = data[:start] + chance.randbytes(length) + data[end:]
    path.write_bytes(new)
    return f"{length} random bytes at {start}"


def foreign(path, others, chance):
    content = chance.choice([*FOREIGN, chance.randbytes(5000)])
    path.write_bytes(content)
    return repr(content[:20])


def appended(path, others, chance):
    more = chance.choice([b" ", b"\n", b"\0", b"{}", path.read_bytes()])
    path.write_bytes(path.read_bytes() + more)
    return repr(more[:20])


def other_file(path, others, chance):
    """Another file of the store in this place."""
    other = chance.choice([other for other in others if other.read_bytes() != path.read_bytes()])
    path.write_bytes(other.read_bytes())
    return f"by {other.parent.name}/{other.name}"


def json_edit(path, others, chance):
    """Another value, type, field or item at any place, as by an editor."""
    content, before = json.loads(path.read_text()), json.loads(path.read_text())
    done = edit_json(content, chance)
    while content == before and str(content) == str(before):
        done = edit_json(content, chance)
    path.write_text(json.dumps(content, indent=1) + "\n")
    return done


def json_number(path, others, chance):
    """A number that JSON does not have, or that nothing can compute with."""
    content = json.loads(path.read_text())
    places = list(number_places(content))
    holder, key = chance.choice(places)
    holder[key] = chance.choice(NUMBERS)
    path.write_text(json.dumps(content, indent=1) + "\n")
    return f"{key!r} = {str(holder[key])[:20]}"


def number_places(content):
    items = content.items() if isinstance(content, dict) else enumerate(content)
    for key, value in items:
        if isinstance(value, (dict, list)):
            yield from number_places(value)
        elif isinstance(value, (int, float)):
            yield content, key


def folder_instead(path, others, chance):
    path.unlink()
    path.mkdir()
    if chance.random() < 0.5:
        (path / "inside").write_text("something")
    return ""


def link_to_nothing(path, others, chance):
    path.unlink()
    path.symlink_to(chance.choice(["nowhere", path.name, "/nowhere/at/all"]))
    return f"to {os.readlink(path)}"


def pipe_instead(path, others, chance):
    path.unlink()
    os.mkfifo(path)
    return ""


def huge_file(path, others, chance):
    """Mostly a hole: it takes no place on the disk, but would take 64 GB of memory."""
    os.truncate(path, HUGE_FILE)
    return ""


def unreadable(path, others, chance):
    path.chmod(0)
    return ""


BYTE_EDITS = [truncated, truncated, bit_flipped, bit_flipped, bytes_replaced, foreign, appended]
PLACE_EDITS = [folder_instead, link_to_nothing, pipe_instead, huge_file]
if os.geteuid() != 0:  # root reads everything
    PLACE_EDITS.append(unreadable)


def replace_by_file(folder):
    """A file in the place of a folder of the store."""
    shutil.rmtree(folder)
    folder.write_text("not a folder")


# With the right digest


def forge(path, chance):
    """Edit a random place of a file and renew its digest; says how."""
    if path.suffix in (".json", ".progress"):
        content = unseal(path.read_bytes())
        done = edit_json(content, chance)
        path.write_bytes(seal(content))
        return done
    done, header, tensors = next(mutants(*read(path), seed=chance.random()))
    path.write_bytes(file_content(header, tensors))
    return done
