"""Plain cross entropy."""

from __future__ import annotations

from selc.methods.base import METHODS, Method


@METHODS.register("ce")
class CE(Method):
    """Cross entropy on the given labels: what the others are compared with."""

    parallel = True
