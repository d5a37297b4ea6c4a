"""Who gives a command: the name that the audit trail keeps."""

import getpass


def actor() -> str:
    """The user's login name; `cli` where the system knows none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "cli"
