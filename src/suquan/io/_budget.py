"""How much of a table is held at a time when it is read or written in blocks."""

VALUES = 4 * 2**20  # 32 MiB of doubles


def rows(width: int) -> int:
    """Rows of this width that are held at a time."""
    return max(1, VALUES // max(1, width))
