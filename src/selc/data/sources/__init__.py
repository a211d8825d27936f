"""Where a user's own data come from: one file for each format."""
