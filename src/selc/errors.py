"""Every error that selc raises on purpose.

    SelcError                 one sentence: what must be what; got what; what to do
    ├── InputError            data, labels or an index that cannot be used (also a ValueError)
    ├── ConfigError           a setting or a name that is unknown or out of range (also a ValueError)
    ├── TrainingError         the training itself broke down, such as a loss that is not finite
    └── RunFolderError        a run folder or checkpoint that cannot be read or written

The command line prints the sentence and exits with code 2. A sentence is written with the flags of the command
(``--id-column``); in Python it names the keyword instead (``id_column``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches


def in_python(text: str) -> str:
    """A sentence for a caller in Python: keywords in the place of flags. What stands in backticks is a command to type.

    >>> in_python("--id-column must name a column; or go on by --skip-bad (skip_bad=True). See `selc train --help`.")
    'id_column must name a column; or go on by skip_bad=True. See `selc train --help`.'
    """
    parts = text.split("`")
    for k in range(0, len(parts), 2):
        both = re.sub(r"--[a-z][a-z-]* \((\w+=\w+)\)", r"\1", parts[k])
        both = re.sub(r"\b(\w+) \(--[a-z][a-z-]*\)", r"\1", both).replace("--set ", "")
        parts[k] = re.sub(r"(?<![\w-])--([a-z][a-z-]*)", lambda flag: flag[1].replace("-", "_"), both)
    return "`".join(parts)


class SelcError(Exception):
    """Base of all errors that selc raises on purpose: one sentence that says what must be what, got what, what to do.

    Examples
    --------
    >>> import torch
    >>> import selc
    >>> try:
    ...     selc.SELCLoss(torch.tensor([1, 2, 3]), num_classes=3)
    ... except selc.SelcError as error:
    ...     print(error)
    labels must be in 0..2 for 3 classes; got values from 1 to 3. Number the classes from 0.
    """

    def __str__(self) -> str:
        return in_python(super().__str__())

    @property
    def for_command(self) -> str:
        """The sentence for whoever typed a command: flags, and no keywords beside them."""
        text = re.sub(r"(--[a-z][a-z-]*) \(\w+=\w+\)", r"\1", super().__str__())
        return re.sub(r"\b\w+_\w+ \((--[a-z][a-z-]*)\)", r"\1", text)


class InputError(SelcError, ValueError):
    """Data, labels or an index that cannot be used; also a ``ValueError``.

    Examples
    --------
    >>> import selc
    >>> issubclass(selc.InputError, ValueError)
    True
    """


class ConfigError(SelcError, ValueError):
    """A setting or a name that is unknown or out of range; also a ``ValueError``.

    Examples
    --------
    >>> import selc
    >>> try:
    ...     selc.fit([[0.0], [1.0]] * 20, [0, 1] * 20, method="sellc")  # doctest: +ELLIPSIS
    ... except selc.ConfigError as error:
    ...     print(error)
    method must be one of ...; got 'sellc'. Did you mean 'selc'?
    """


class TrainingError(SelcError):
    """The training itself broke down, such as by a loss that is not finite.

    Examples
    --------
    >>> import torch
    >>> import selc
    >>> x = torch.tensor([[-1e30], [1e30]] * 20)
    >>> try:
    ...     selc.fit(x, [0, 1] * 20, method="ce", epochs=2, lr=1e30, batch_size=20)
    ... except selc.TrainingError as error:
    ...     print("broke down")
    broke down
    """


class RunFolderError(SelcError):
    """A run folder or checkpoint that cannot be read or written.

    Examples
    --------
    >>> import selc
    >>> try:
    ...     selc.RunFolder.open("no-such-run")
    ... except selc.RunFolderError as error:
    ...     print(error)
    no-such-run must be the folder of a run; got no such folder.
    """


def unknown(what: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for a name that is not registered; it names the nearest known one."""
    names = sorted(known)
    near = get_close_matches(name.lower(), names, n=1, cutoff=0.4)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return ConfigError(f"{what} must be one of {', '.join(names)}; got {name!r}. {hint}".rstrip())
