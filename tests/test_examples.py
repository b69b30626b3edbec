"""Every program of examples/training runs, and learns what it says it learns."""

import os
import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples" / "training"
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py"))
PAGE = FOLDER.parent.parent / "docs" / "training.md"
LAST_LINE = re.compile(r"mean absolute error (\S+), that of a constant (\S+)\Z")
# At most so much of a constant's error is left.
LEFT = {
    "distributed": 0.35,
    "image_network": 0.05,
    "lightning_module": 0.25,
    "plain_loop": 0.25,
    "skorch_search": 0.25,
    "stream": 0.25,
    "transformer_head": 0.25,
}


def assert_learnt(program, output):
    error, constant = map(float, LAST_LINE.search(output.strip()).groups())
    assert error < LEFT[program] * constant


def test_every_program_is_run_here():
    assert set(LEFT) == set(PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_can_be_copied_from_one_screen(program):
    lines = (FOLDER / f"{program}.py").read_text().splitlines()
    assert len(lines) <= 60
    assert f"{program}.py" in lines[0]  # how to run it


def test_the_page_shows_every_program():
    shown = re.findall(r'^--8<-- "training/(\w+)\.py"$', PAGE.read_text(), re.MULTILINE)
    assert sorted(shown) == PROGRAMS


def run_in_process(program, capsys):
    """Run a program as `python program.py` would; what it prints."""
    runpy.run_path(str(FOLDER / f"{program}.py"), run_name="__main__")
    return capsys.readouterr().out


@pytest.mark.parametrize("program", ["image_network", "stream", "transformer_head"])
def test_a_program_learns(program, capsys):
    assert_learnt(program, run_in_process(program, capsys))


@pytest.fixture
def plain(capsys, monkeypatch):
    """What the plain loop prints without a compiler."""
    monkeypatch.setattr("torch.compile", lambda fullgraph: lambda function: function)
    return run_in_process("plain_loop", capsys)


def test_the_plain_loop_learns_without_a_compiler(plain):
    assert_learnt("plain_loop", plain)


@pytest.mark.filterwarnings("ignore")  # Lightning calls what torch deprecates
def test_a_lightning_checkpoint_loads(capsys, tmp_path, monkeypatch):
    pytest.importorskip("lightning", reason="the example is about Lightning")
    monkeypatch.chdir(tmp_path)
    assert_learnt("lightning_module", run_in_process("lightning_module", capsys))
    assert not list(tmp_path.iterdir())


def test_skorch_searches(capsys):
    pytest.importorskip("skorch", reason="the example is about skorch")
    output = run_in_process("skorch_search", capsys)
    assert "chosen: Gaussian(" in output
    assert_learnt("skorch_search", output)


# In processes of their own


def output_of(command, folder):
    local = {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | local
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(output):
    return [float(value) for value in re.findall(r"loss (\d\S*)", output)]


@pytest.mark.slow
def test_compiled_or_not_the_plain_loop_learns_the_same(plain, tmp_path):
    compiled = output_of([FOLDER / "plain_loop.py"], tmp_path)
    assert_learnt("plain_loop", compiled)
    # The layers compute in bfloat16, which has three digits, and a graph rounds less often.
    assert len(losses(compiled)) == 15
    assert losses(compiled) == pytest.approx(losses(plain), rel=0.02)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def distributed(processes, folder):
    """The output of the first of so many processes."""
    run = ["-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
    where = ["--master-addr", "127.0.0.1", "--master-port", free_port()]
    return output_of([*run, *where, FOLDER / "distributed.py"], folder)


@pytest.mark.slow
def test_two_processes_have_the_curve_of_one_with_twice_the_batch(tmp_path):
    one, two = (distributed(processes, tmp_path) for processes in (1, 2))
    assert_learnt("distributed", two)
    assert len(losses(one)) == 8 * 1024 / 64
    assert losses(two) == pytest.approx(losses(one), rel=1e-5)
