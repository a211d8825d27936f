"""What is remembered of each sample: one table, in several forms; it needs nothing but torch."""

from selc.memory.store import Store

__all__ = ["Store"]
