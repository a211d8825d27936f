"""Labels that are names: the corrected ones come back as numbers, and `classes` names them."""

import numpy as np

import selc

rng = np.random.default_rng(0)
x = rng.normal(size=(2000, 2))
kind = np.where(x[:, 0] > 0, "right", "left")  # what is true
labels = np.where(rng.random(2000) < 0.2, np.where(kind == "left", "right", "left"), kind)  # what is given

outcome = selc.fit(x, labels, epochs=20, lr=0.01, batch_size=64, schedule="constant")
corrected = np.array(outcome.classes)[outcome.corrected_labels]
print(f"labels right: {np.mean(labels == kind):.1%} given, {np.mean(corrected == kind):.1%} corrected")
