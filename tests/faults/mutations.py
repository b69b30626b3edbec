"""Structured edits of a model file: a generator of mutants, whatever header and tensors hold.

Nothing here knows a field or a tensor by name: an edit walks to a random place and changes what is
there. The digest is renewed, as by somebody who knows the format.
"""

import copy
import json
import math
import random

import safetensors.torch
import torch

from softbins._core import model_file

VALUES = [
    *(None, True, False, 0, 1, -1, 2, 3, 50, 1000, 10**6, 10**8, 2**31, 2**63, 10**400),
    *(0.0, -0.0, 0.5, -0.5, 1.5, 1e-320, -1e-9, 1e9, 1e37, 1e100, 1e308, -1e308),
    *("", "a", "auto", "number", "category", "relu", "\n" * 500, "x" * 10_000),
    *([], [0], [[]], ["a", "b"], [20_000, 20_000], [1] * 10_000, [None], [{}]),
    *({}, {"a": 1}, {"t": 1.0}, {"edges": [0.0, 1.0]}),
]
NUMBERS = [0, 1, -1, 7, 1e6, 3e9, 1e18, 1e37, -1e37, 1e300, -1e300, 1e-300]
NUMBERS += [math.nan, math.inf, -math.inf]
DTYPES = (torch.float64, torch.float32, torch.float16, torch.int64, torch.int32, torch.bool)


def mutants(header, tensors, seed):
    """Endlessly many pairs of what was edited, and a header and tensors with the edits."""
    chance = random.Random(seed)
    while True:
        edited, changed = copy.deepcopy(header), dict(tensors)
        done = []
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            if chance.random() < 0.5:
                done.append(edit_json(edited, chance))
            else:
                done.append(edit_tensors(changed, chance))
        yield "; ".join(done), edited, changed


def file_content(header, tensors):
    """The bytes of a model file with the right digest, also where softbins would not write it."""
    tensors = {name: model_file._dense_copy(name, value) for name, value in tensors.items()}
    envelope = {
        "version": model_file.FORMAT_VERSION,
        "sha256": model_file.digest_of(header, tensors),
        "header": header,
    }
    return safetensors.torch.save(tensors, {model_file.MAGIC: json.dumps(envelope)})


# The header


def edit_json(header, chance):
    """Change one place of the header, and say how."""
    holder, key, place = random_place(header, chance)
    edit = chance.choice(JSON_EDITS)
    before = repr(holder[key])[:40]
    edit(holder, key, header, chance)
    after = repr(holder[key])[:40] if key_exists(holder, key) else "nothing"
    return f"{place} {edit.__name__}: {before} -> {after}"


def random_place(header, chance):
    """A random walk down to a value: what holds it, its key there, and the way in words."""
    holder, key, place = header, chance.choice(list(header)), "header"
    while True:
        place += f"[{key!r}]"
        inside = holder[key]
        keys = list(inside) if isinstance(inside, dict) else []
        keys = list(range(len(inside))) if isinstance(inside, list) else keys
        if not keys or chance.random() < 0.15:
            return holder, key, place[:200]
        holder, key = inside, chance.choice(keys)


def key_exists(holder, key):
    return key in holder if isinstance(holder, dict) else key < len(holder)


def replace(holder, key, header, chance):
    holder[key] = copy.deepcopy(chance.choice(VALUES))


def recast(holder, key, header, chance):
    """The same number, or the same text, as another type."""
    value = holder[key]
    if isinstance(value, (int, float)):
        holder[key] = chance.choice(
            [str(value)[:100], bool(value), [value], as_other_number(value)]
        )
    else:
        holder[key] = chance.choice([[value], {"value": value}, str(value)[:100]])


def as_other_number(value):
    """3 for 3.0, and 3.0 for 3."""
    if isinstance(value, float):
        return int(value)
    return float(value) if abs(value) < 10**300 else value


def compute(holder, key, header, chance):
    """A number near to the old one, or far away, or with another sign."""
    value = holder[key]
    if type(value) not in (int, float):
        return replace(holder, key, header, chance)
    factor = chance.choice([-1, 0, 2, 10, 1000, 10**6, 10**300])
    try:
        holder[key] = chance.choice([value + 1, value - 1, value * factor])
    except OverflowError:
        holder[key] = value + 1
    if isinstance(holder[key], float) and not math.isfinite(holder[key]):
        holder[key] = 1.7e308  # JSON has no infinity
    return None


def delete(holder, key, header, chance):
    del holder[key]


def grow(holder, key, header, chance):
    """One more field or item, or very many."""
    value = holder[key]
    if isinstance(value, dict):
        value[chance.choice(["more", "", "t", "bins", "class"])] = chance.choice(VALUES)
    elif isinstance(value, list):
        value.extend((value or [0]) * chance.choice([1, 1, 100]))
    else:
        holder[key] = [value, value]


def rearrange(holder, key, header, chance):
    value = holder[key]
    if isinstance(value, list):
        chance.shuffle(value)
    elif isinstance(value, dict) and len(value) > 1:
        one, other = chance.sample(sorted(value), 2)
        value[one], value[other] = value[other], value[one]
    else:
        replace(holder, key, header, chance)


def copy_from_elsewhere(holder, key, header, chance):
    other, name, _ = random_place(header, chance)
    holder[key] = copy.deepcopy(other[name])


JSON_EDITS = [replace, replace, recast, compute, compute, delete, grow, rearrange]
JSON_EDITS += [copy_from_elsewhere]


# The tensors


def edit_tensors(tensors, chance):
    """Change one tensor, or several alike, and say how."""
    name, edit = chance.choice(sorted(tensors)), chance.choice(TENSOR_EDITS)
    edit(tensors, name, chance)
    return f"tensor {name} {edit.__name__}"


def set_some(tensors, name, chance):
    """One value, or all."""
    value = tensors[name].clone().reshape(-1)
    place = slice(None) if chance.random() < 0.2 or not len(value) else chance.randrange(len(value))
    value[place] = fitting(chance.choice(NUMBERS), value.dtype)
    tensors[name] = value.reshape(tensors[name].shape)


def fitting(number, dtype):
    """The number, or the nearest one that the type has."""
    if dtype.is_floating_point:
        largest = torch.finfo(dtype).max
        return number if not math.isfinite(number) else max(min(number, largest), -largest)
    return int(max(min(number, 2**62), -(2**62))) if math.isfinite(number) else -(2**63)


def multiply(tensors, name, chance):
    tensors[name] = tensors[name] * chance.choice([-1, 0, 2, 1000, 10**18])


def shift_by_one(tensors, name, chance):
    tensors[name] = tensors[name] + chance.choice([-1, 1])


def permute_values(tensors, name, chance):
    value = tensors[name]
    order = torch.tensor(chance.sample(range(value.numel()), value.numel()), dtype=torch.int64)
    tensors[name] = value.reshape(-1)[order].reshape(value.shape)


def turn_around(tensors, name, chance):
    value = tensors[name]
    tensors[name] = value.flip(chance.randrange(value.ndim)) if value.ndim else 1 / (value + 1)


def resize(tensors, name, chance):
    """Fewer or more along one dimension, in one tensor or in all that are as long there."""
    value = tensors[name]
    if not value.ndim:
        tensors[name] = value.expand(chance.choice([1, 2, 1000]))
        return
    axis = chance.randrange(value.ndim)
    length = value.shape[axis]
    new = chance.choice([0, 1, length - 1, length + 1, 2 * length, 5000 // max(value.numel(), 1)])
    alike = [name]
    if chance.random() < 0.5:
        alike = [n for n, t in tensors.items() if t.ndim > axis and t.shape[axis] == length]
    for each in alike:
        old = tensors[each]
        places = torch.arange(max(new, 0)).remainder(max(length, 1))
        tensors[each] = old.index_select(axis, places) if length else old


def reshape(tensors, name, chance):
    value = tensors[name]
    shapes = [value.reshape(-1), value.unsqueeze(0), value.unsqueeze(-1), value.squeeze()]
    shapes += [value.transpose(0, -1)] if value.ndim else []
    tensors[name] = chance.choice(shapes)


def recast_tensor(tensors, name, chance):
    tensors[name] = tensors[name].to(chance.choice(DTYPES))


def delete_tensor(tensors, name, chance):
    del tensors[name]


def rename(tensors, name, chance):
    tensors[chance.choice([f"{name}x", name.upper(), "more", "weights.9"])] = tensors.pop(name)


def add_tensor(tensors, name, chance):
    tensors[chance.choice(["more", "edges", "blurred_edges", f"{name}.0"])] = tensors[name]


def exchange(tensors, name, chance):
    other = chance.choice(sorted(tensors))
    alike = [n for n, t in tensors.items() if t.shape == tensors[name].shape and n != name]
    if alike and chance.random() < 0.7:
        other = chance.choice(alike)
    tensors[name], tensors[other] = tensors[other], tensors[name]


TENSOR_EDITS = [set_some, set_some, set_some, multiply, shift_by_one, permute_values, turn_around]
TENSOR_EDITS += [resize, resize, reshape, recast_tensor, delete_tensor, rename, add_tensor]
TENSOR_EDITS += [exchange]
