"""Sorting short runs of 32-bit words in vector registers.

Compiled loops do not get at the vector instructions that a sort needs, so the code is written here in LLVM's
own language: minima, maxima and shuffles of vectors of sixteen words, which LLVM turns into whatever the
processor has (AVX-512, AVX2, NEON).

A run of up to 16·k words lies in k registers, the rows of a matrix of sixteen columns:

1. A network of comparisons between registers sorts every column.
2. Neighbouring columns are merged, 16 to 8 to 4 to 2 to 1: the elements of two sorted columns, one of them
   backwards, are bitonic, and comparisons at half, a quarter, … of their length sort them.
3. The one column that is left goes down the registers first; a transposition brings it into memory's order.

Places behind the end of a run hold the largest word.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

LANES = 16

_WORD = ir.IntType(32)
_INDEX = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, LANES)
_ANY = ir.Constant(_VECTOR, ir.Undefined)


def _vector(words: Sequence[int]) -> ir.Constant:
    """Vector of constants."""
    return ir.Constant(_VECTOR, [ir.Constant(_WORD, word) for word in words])


def comparisons(size: int) -> list[tuple[int, int]]:
    """Batcher's odd-even merge sort: pairs (i, j), i < j, to be put in order one after the other.

    For sizes that are no power of two the pairs of the next one that reach beyond the end are left out.

    Examples
    --------
    >>> comparisons(4)
    [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)]
    """
    padded = 1
    while padded < size:
        padded *= 2
    return [(i, j) for i, j in _sort_range(0, padded) if j < size]


def _sort_range(start: int, size: int) -> list[tuple[int, int]]:
    """Comparisons that sort `size` elements, a power of two: both halves, one by one, then their merge."""
    if size == 1:
        return []
    half = size // 2
    sorts = _sort_range(start, half) + _sort_range(start + half, half)
    return sorts + _merge_range(start, size, 1)


def _merge_range(start: int, size: int, step: int) -> list[tuple[int, int]]:
    """Comparisons that merge the sorted halves of every `step`-th element of a range."""
    if 2 * step >= size:
        return [(start, start + step)]
    evens = _merge_range(start, size, 2 * step)
    odds = _merge_range(start + step, size, 2 * step)
    neighbours = range(start + step, start + size - step, 2 * step)
    return evens + odds + [(i, i + step) for i in neighbours]


def merging_comparisons(size: int) -> list[tuple[int, int]]:
    """Comparisons that sort a bitonic sequence of 2ᵏ or 3·2ᵏ elements.

    At half the length, a quarter, …: after each, one half holds the smaller elements, and both are bitonic.
    A sequence of 3·2ᵏ that falls and rises is like one of 4·2ᵏ that ends with the largest elements, one that
    rises and falls like one that begins with the smallest. The first needs comparisons of the first two thirds,
    the second of the last two; to the other kind, in which these are in order already, they do nothing.

    Examples
    --------
    >>> merging_comparisons(4)
    [(0, 2), (1, 3), (0, 1), (2, 3)]
    >>> merging_comparisons(3)
    [(0, 2), (0, 1), (1, 2)]
    """
    third = size // 3 if size % 3 == 0 else 0
    whole = third or size
    if whole & (whole - 1):
        raise ValueError(f"size must be a power of two, or three times one; got {size}.")
    pairs = [(i, i + 2 * third) for i in range(third)]
    pairs += [(i, i + third) for i in range(2 * third)]
    distance = whole // 2
    while distance:
        pairs += [(i, i + distance) for i in range(size) if i // distance % 2 == 0]
        distance //= 2
    return pairs


class _Registers:
    """Code for the steps of one network, on registers that are the rows of a matrix; see the module."""

    def __init__(self, builder: Any, rows: list) -> None:
        self.builder = builder
        self.rows = rows

    def shuffled(self, row: Any, sources: Sequence[int]) -> Any:
        """Register whose lane l is lane ``sources[l]`` of `row`."""
        return self.builder.shuffle_vector(row, _ANY, _vector(sources))

    def blended(self, low: Any, high: Any, bit: int) -> Any:
        """Lanes of `high` where the lane's number has `bit`, of `low` elsewhere."""
        sources = [lane + LANES if lane & bit else lane for lane in range(LANES)]
        return self.builder.shuffle_vector(low, high, _vector(sources))

    def ordered(self, a: Any, b: Any) -> tuple[Any, Any]:
        """Lane by lane the smaller and the larger of two words."""
        is_less = self.builder.icmp_unsigned("<", a, b)
        return self.builder.select(is_less, a, b), self.builder.select(is_less, b, a)

    def compare_rows(self, i: int, j: int) -> None:
        """Put the words of two registers in order."""
        self.rows[i], self.rows[j] = self.ordered(self.rows[i], self.rows[j])

    def sort_columns(self) -> None:
        """Sort every column, whatever it holds."""
        for i, j in comparisons(len(self.rows)):
            self.compare_rows(i, j)

    def merge_columns(self) -> None:
        """Sort every column, given that it is bitonic."""
        for i, j in merging_comparisons(len(self.rows)):
            self.compare_rows(i, j)

    def fold(self, width: int) -> None:
        """Compare sorted blocks of `width` columns with their right neighbours, taken backwards."""
        size = len(self.rows)
        backwards = [lane ^ (2 * width - 1) for lane in range(LANES)]
        for i in range((size + 1) // 2):
            j = size - 1 - i
            small, large = self.ordered(self.rows[i], self.shuffled(self.rows[j], backwards))
            self.rows[i] = self.blended(small, large, width)
            if i != j:
                self.rows[j] = self.shuffled(self.blended(large, small, width), backwards)

    def compare_lanes(self, distance: int) -> None:
        """Put lanes `distance` apart in order."""
        partners = [lane ^ distance for lane in range(LANES)]
        for i, row in enumerate(self.rows):
            small, large = self.ordered(row, self.shuffled(row, partners))
            self.rows[i] = self.blended(small, large, distance)

    def sort(self) -> None:
        """Sort all words: column by column, and down each of them."""
        self.sort_columns()
        width = 1
        while width < LANES:
            self.fold(width)
            distance = width // 2
            while distance:
                self.compare_lanes(distance)
                distance //= 2
            self.merge_columns()
            width *= 2


def transposed(builder: Any, rows: list) -> list:
    """Columns of a matrix of up to sixteen registers, as registers of which only the first words count."""
    rows = rows + [None] * (LANES - len(rows))
    bit = 1
    while bit < LANES:
        left = _vector([lane if not lane & bit else LANES + lane - bit for lane in range(LANES)])
        right = _vector([lane + bit if not lane & bit else LANES + lane for lane in range(LANES)])
        turned: list = [None] * LANES
        for i in range(LANES):
            if not i & bit and rows[i] is not None:
                pair = rows[i], _ANY if rows[i + bit] is None else rows[i + bit]
                turned[i] = builder.shuffle_vector(*pair, left)
                turned[i + bit] = builder.shuffle_vector(*pair, right)
        rows = turned
        bit *= 2
    return rows


def _address(builder: Any, words: Any, place: int) -> Any:
    """Where a register's worth of `words` begins, from `place` on."""
    return builder.bitcast(builder.gep(words, [ir.Constant(_INDEX, place)]), _VECTOR.as_pointer())


def _load_run(builder: Any, words: Any, size: Any, n_registers: int) -> list:
    """Registers that hold a run of `size` words, and the largest word behind its end."""
    first = builder.insert_element(_ANY, builder.trunc(size, _WORD), ir.Constant(_WORD, 0))
    sizes = builder.shuffle_vector(first, _ANY, _vector([0] * LANES))
    rows = []
    for place in range(0, n_registers * LANES, LANES):
        row = builder.load(_address(builder, words, place))
        row.align = 4
        is_inside = builder.icmp_unsigned("<", _vector(range(place, place + LANES)), sizes)
        rows.append(builder.select(is_inside, row, _vector([0xFFFFFFFF] * LANES)))
    return rows


def _store_run(builder: Any, rows: list, goal: Any) -> None:
    """Write sorted registers to memory, column by column.

    A column of less than sixteen words overwrites what the one before wrote too much.
    """
    n_registers = len(rows)
    if n_registers == 1:
        builder.store(rows[0], _address(builder, goal, 0)).align = 4
        return
    for lane, column in enumerate(transposed(builder, rows)):
        builder.store(column, _address(builder, goal, lane * n_registers)).align = 4


def make_run_sorter(n_registers: int) -> Callable:
    """Function (words, size, goal) of two pointers that sorts up to 16·n_registers words, at most 256.

    The number of registers is a power of two, or three times one. Whatever the size, 16·n_registers words are
    read, and up to 16 more than that written.
    """

    @intrinsic
    def sort_run(typing_context, words, size, goal):
        signature = types.void(words, types.int64, goal)

        def generate(context, builder, signature, arguments):
            words, size, goal = arguments
            registers = _Registers(builder, _load_run(builder, words, size, n_registers))
            registers.sort()
            _store_run(builder, registers.rows, goal)
            return context.get_dummy_value()

        return signature, generate

    return sort_run
