"""The review page: a person looks at the samples that matter most, and says which label is right."""

from selc.review.review_page import Written, write_review

__all__ = ["Written", "write_review"]
