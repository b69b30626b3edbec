"""README and docs are tests: their code runs, their tables are generated, their links exist."""

import importlib.util
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CONTRIBUTING.md"]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [code for found, code in BLOCK.findall(page.read_text()) if found == language]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.name)
def test_every_python_block_runs(page):
    """The blocks of a page share their names, as they do for somebody who pastes them in turn."""
    torch.manual_seed(0)
    names = {}
    checks = LEARNT if page.name == "README.md" else []
    for number, code in enumerate(blocks(page, "python")):
        exec(compile(code, f"{page.name}: {code.splitlines()[0]}", "exec"), names)
        for check in checks[number : number + 1]:
            check(code, **names)
    assert names


def table_is_learnt(code, *, y, mean, low, high, quantiles, predicted, **_):
    assert sum(bool(line) for line in code.splitlines()) <= 10
    new = y[400:]
    assert np.abs(mean - new).mean() < 0.8 * np.abs(new - y[:400].mean()).mean()
    assert ((low <= new) & (new <= high)).mean() > 0.8
    assert (np.diff(quantiles) > 0).all()
    assert np.allclose(predicted.mean, mean)


def network_learns(code, *, y, predicted, **_):
    assert sum(bool(line) for line in code.splitlines()) == 10
    low, high = predicted.interval(0.9)
    assert (predicted.mean - y).abs().mean() < 0.25 * y.std()
    assert ((low <= y) & (y <= high)).float().mean() > 0.85


# What the examples of the README promise, in their order.
LEARNT = [table_is_learnt, network_learns]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_make_command_exists(page):
    for target in set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text(), re.MULTILINE)):
        shown = subprocess.run(
            ["make", "-n", "-C", ROOT, target], capture_output=True, text=True, check=False
        )
        assert shown.returncode == 0, f"{page.name} speaks of `make {target}`: {shown.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_link_inside_the_project_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        assert (page.parent / link).exists(), f"{page.name}: {link}"


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_pages_are_generated():
    tables = script("tables")
    texts = [page.read_text() for page in tables.PAGES]
    found = [name for text in texts for _, name, _ in tables.BLOCK.findall(text)]
    assert sorted(found) == sorted(tables.RENDER)
    for text in texts:
        assert tables.rendered(text) == text, "run `make docs`"


def test_the_reproduction_is_generated():
    reproduction = script("reproduction")
    text = (ROOT / "docs" / "reproduction.md").read_text()
    assert reproduction.page() == text, "run `make docs`"
