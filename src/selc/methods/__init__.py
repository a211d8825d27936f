"""Methods by name. Each is one file; the defaults of `Method` are plain cross entropy."""

import pkgutil
from importlib import import_module

from selc.methods.base import METHODS, Method, create
from selc.methods.ce import CE
from selc.methods.co_teaching import CoTeaching
from selc.methods.elr import ELR
from selc.methods.gce import GCE
from selc.methods.plc import PLC
from selc.methods.sat import SAT
from selc.methods.selc import SELC
from selc.methods.selc_plus import SELCPlus

for _module in pkgutil.iter_modules(__path__):  # a file in this folder is a method; importing it registers it
    import_module(f"{__name__}.{_module.name}")

__all__ = ["CE", "ELR", "GCE", "METHODS", "PLC", "SAT", "SELC", "CoTeaching", "Method", "SELCPlus", "create"]
