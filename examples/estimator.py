"""The scikit-learn way: a classifier in a pipeline; the table of suspicious labels comes with it."""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from selc.estimator import SELCClassifier

images, labels = load_digits(return_X_y=True)
train, test, right, right_test = train_test_split(images, labels, test_size=0.25, random_state=0)
noisy = right.copy()
noisy[::5] = (noisy[::5] + 1) % 10  # every fifth label is wrong

classifier = SELCClassifier(random_state=0).fit(train, noisy)

print(
    f"labels right: {(noisy == right).mean():.1%} given, {(classifier.corrected_labels_ == right).mean():.1%} corrected"
)
print(f"test rows right: {classifier.score(test, right_test):.1%}")
print(f"wrong labels: {classifier.noise_rate_:.1%} estimated")
issues = classifier.label_issues_
worst = issues["label_quality"].argmin()
print(f"worst label: row {issues['sample_id'][worst]}, given {issues['given_label'][worst]}", end="")
print(f", suggested {issues['suggested_label'][worst]}")
