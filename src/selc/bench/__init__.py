"""The tables and figures of the paper as data, and what runs and renders them."""
