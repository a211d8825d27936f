"""To an annotation tool and back: `selc export` writes its tasks, `selc apply --decisions` reads its export."""

from selc.exchange.answers import read_decisions
from selc.exchange.tasks import Exported, export
from selc.exchange.tools import TOOLS

__all__ = ["TOOLS", "Exported", "export", "read_decisions"]
