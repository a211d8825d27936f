"""A run: its configuration, its folder, and the calls that make one."""

from selc.run.config import Config
from selc.run.execute import execute, fit, resume
from selc.run.folder import RunFolder

__all__ = ["Config", "RunFolder", "execute", "fit", "resume"]
