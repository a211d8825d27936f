"""Features first: what a pretrained network sees in images, computed once and trained on."""
