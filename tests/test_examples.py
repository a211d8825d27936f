"""Every example runs, and every Python block of the README is taken from one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from selc.runs import Config, execute

ROOT = Path(__file__).parents[1]


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "examples" / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def shares(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"([\d.]+)%", text)]


@pytest.mark.exhaustive
def test_own_loop_corrects_labels() -> None:
    given, corrected = shares(run("own_loop.py"))
    assert given < 85
    assert corrected > 92


@pytest.mark.exhaustive
def test_the_recorder_finds_wrong_labels() -> None:
    all_, worst = shares(run("recorder.py"))
    assert all_ < 12
    assert worst > 70  # the moons overlap


@pytest.mark.exhaustive
def test_one_call_corrects_labels() -> None:
    given, corrected = shares(run("one_call.py"))
    assert given < 81
    assert corrected > 89  # a class of which by chance too many labels went to the next is left as it is


@pytest.mark.exhaustive
def test_labels_that_are_names_are_corrected() -> None:
    given, corrected = shares(run("own_labels.py"))
    assert given < 81
    assert corrected > 92


@pytest.mark.exhaustive
def test_weights_of_a_run_load_in_plain_pytorch_and_predict_the_same(tmp_path: Path) -> None:
    config = Config.resolve({"data": "digits", "method": {"name": "ce"}, "train": {"epochs": 1}})
    execute(config, tmp_path / "run")
    output = run("plain_pytorch.py", str(tmp_path / "run"))
    assert "selc" not in (ROOT / "examples" / "plain_pytorch.py").read_text().split("import sys")[1].split("run =")[0]
    from safetensors.torch import load_file

    from selc.nets import create

    net = create("mlp", 10, (1, 8, 8)).eval()
    net.load_state_dict(load_file(tmp_path / "run" / "model.safetensors"))
    expected = net(torch.zeros(1, 1, 8, 8)).softmax(1)
    printed = torch.tensor([float(v) for v in re.findall(r"\d[\d.e-]*", output.split(":")[1])])
    torch.testing.assert_close(printed, expected[0].detach())


def test_python_blocks_of_the_readme_are_parts_of_the_examples() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    examples = [path.read_text() for path in (ROOT / "examples").glob("*.py")]
    assert blocks
    for block in blocks:
        assert any(block.strip() in example for example in examples), f"not in any example:\n{block}"


def test_the_readme_names_the_two_commands_and_files_that_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    assert "make demo" in readme
    assert "make test" in readme
    for link in re.findall(r"\]\(([^)#]+)\)", readme):
        assert link.startswith("http") or (ROOT / link).exists(), f"README links to {link}, which is not there"
