"""A run: its configuration, its folder, and the calls that make one."""

from selc.runs.config import Config
from selc.runs.fitting import fit
from selc.runs.folder import RunFolder
from selc.runs.job import execute, resume

__all__ = ["Config", "RunFolder", "execute", "fit", "resume"]
