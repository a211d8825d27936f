"""A result names what it may depend on, and nothing of the machine beside that."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from typing import Any

import pytest

from selc.runs.folder import environment


def environment_with(**variables: str) -> Any:
    code = "import json; from selc.runs.folder import environment; print(json.dumps(environment()))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.exhaustive
def test_the_instructions_that_torch_really_uses_are_named() -> None:
    assert environment_with(ATEN_CPU_CAPABILITY="default")["cpu_capability"] == "DEFAULT"


def test_system_and_processor_are_named_but_no_kernel_and_no_host() -> None:
    found = environment()
    assert found["platform"].split() == [platform.system(), platform.machine()]
    for word in (platform.release(), platform.node()):
        assert word not in json.dumps(found)
