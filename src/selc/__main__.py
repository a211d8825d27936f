"""``python -m selc`` is the same as the command."""

from selc.cli import main

main()
