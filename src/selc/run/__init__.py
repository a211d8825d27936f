"""A run: its configuration, its folder, and the calls that make one."""

from selc.run.arrays import fit
from selc.run.config import Config
from selc.run.folder import RunFolder
from selc.run.job import execute, resume

__all__ = ["Config", "RunFolder", "execute", "fit", "resume"]
