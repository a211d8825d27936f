"""To an annotation tool and back: `selc export` writes its tasks, `selc apply --decisions` reads its export."""

from selc.review.exchange.answers import read_decisions
from selc.review.exchange.tasks import Exported, export
from selc.review.exchange.tools import TOOLS

__all__ = ["TOOLS", "Exported", "export", "read_decisions"]
