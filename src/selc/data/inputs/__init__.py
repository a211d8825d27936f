"""Rows for the loop: whole batches by index, from memory, from bytes of images or from any torch dataset."""
