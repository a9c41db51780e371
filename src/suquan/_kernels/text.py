"""Where the rows of delimited text end."""

from suquan._kernels._jit import kernel

_QUOTE, _LINE_FEED, _CARRIAGE_RETURN = ord('"'), ord("\n"), ord("\r")
_CELL_START, _IN_CELL, _IN_QUOTES, _AFTER_QUOTES = range(4)


@kernel
def last_row_end(text, delimiter):
    """Bytes up to the last line feed that ends a row; those between quotes are part of a cell.

    A quote opens where a cell starts and nowhere else; two of them inside quotes stand for one.

    Parameters
    ----------
    text : array of shape (m,), uint8
        Bytes from the start of a row on.
    delimiter : int
        The byte between two cells.

    Returns
    -------
    int
        0 if no row ends.
    """
    end = 0
    state = _CELL_START
    for i in range(text.shape[0]):
        byte = text[i]
        if state == _IN_QUOTES:
            if byte == _QUOTE:
                state = _AFTER_QUOTES
        elif byte == _QUOTE and state != _IN_CELL:
            state = _IN_QUOTES
        elif byte in (delimiter, _CARRIAGE_RETURN):
            state = _CELL_START
        elif byte == _LINE_FEED:
            state = _CELL_START
            end = i + 1
        else:
            state = _IN_CELL
    return end
