"""A table with wrong labels: what is found, and a second round with rows that a person has verified."""

import sys

import pandas as pd

import selc

table = pd.read_csv(sys.argv[1])
given = table.pop("label")
ids = table.pop("id")

first = selc.fit(table, given, epochs=30, lr=0.0063, batch_size=40)
issues = pd.DataFrame(first.label_issues_).assign(sample_id=ids)
worst = issues.sort_values("label_quality").head(20)
print(worst[["sample_id", "given_label", "suggested_label", "label_quality", "action"]])

labels = given.mask(issues["action"] == "relabel", issues["suggested_label"])
verified = worst.index  # rows that you have looked at, and whose labels in `labels` are right
second = selc.fit(table, labels, verified=verified, epochs=30, lr=0.0063, batch_size=40)
print(f"{(second.corrected_names != labels).sum()} labels changed in the second round")
