"""The state of a training on disk, and how it comes back."""
