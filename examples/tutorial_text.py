"""Texts with wrong labels: the twenty that look most wrong."""

import sys

import pandas as pd

import selc

table = pd.read_csv(sys.argv[1])
outcome = selc.fit(table["review"], table["label"], epochs=30)
issues = pd.DataFrame(outcome.label_issues_).assign(sample_id=table["id"], review=table["review"])
worst = issues.sort_values("label_quality").head(20)
print(worst[["sample_id", "given_label", "suggested_label", "label_quality", "review"]].to_string())
