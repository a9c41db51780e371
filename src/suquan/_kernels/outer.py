"""Sums of outer products in vector registers, the core of products of a matrix with sixteen vectors.

Compiled loops do not get at what this needs, so it is written in LLVM's own language: registers that hold one
entry of sixteen vectors, and numbers of the matrix that are multiplied with all of them at once.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# Vectors that are multiplied at a time, and numbers of the matrix that meet each of their entries.
LANES = 16
DEPTH = 8

_INDEX = ir.IntType(64)
_LANE = ir.IntType(32)


@intrinsic
def add_outer(typing_context, numbers, step, stride, size, vectors, sums):
    """Add Σ_i numbers[t·step + i·stride] · vectors[i] to ``sums[t]``, for t = 0, …, DEPTH − 1.

    Parameters
    ----------
    numbers : pointer
    step, stride, size : int
    vectors : pointer to `size` × LANES numbers
    sums : pointer to DEPTH × LANES numbers
    """
    signature = types.void(numbers, types.int64, types.int64, types.int64, vectors, sums)

    def generate(context, builder, signature, arguments):
        _Loop(context.get_value_type(signature.args[0].dtype), builder, *arguments).write()
        return context.get_dummy_value()

    return signature, generate


class _Loop:
    """Code of :func:`add_outer` for numbers of one type."""

    def __init__(
        self, number: Any, builder: Any, numbers, step, stride, size, vectors, sums
    ) -> None:
        self.builder, self.vector = builder, ir.VectorType(number, LANES)
        self.numbers, self.step, self.stride, self.size = numbers, step, stride, size
        self.vectors, self.sums = vectors, sums

    def write(self) -> None:
        builder = self.builder
        before = builder.block
        body, after = builder.append_basic_block("outer"), builder.append_basic_block("outer.end")
        first = [builder.load(self._sum(t), align=4) for t in range(DEPTH)]
        builder.branch(body)
        builder.position_at_end(body)
        i = builder.phi(_INDEX)
        totals = [builder.phi(self.vector) for _ in range(DEPTH)]
        place = builder.mul(i, self.stride)
        lanes = builder.load(self._lanes(self.vectors, builder.mul(i, _constant(LANES))), align=4)
        added = []
        for t, total in enumerate(totals):
            there = builder.add(place, builder.mul(self.step, _constant(t)))
            number = self._everywhere(builder.load(builder.gep(self.numbers, [there])))
            product = builder.fmul(number, lanes, flags=("contract",))
            added.append(builder.fadd(product, total, flags=("contract",)))
        following = builder.add(i, _constant(1))
        builder.cbranch(builder.icmp_signed("<", following, self.size), body, after)
        i.add_incoming(_constant(0), before)
        i.add_incoming(following, body)
        for total, start, end in zip(totals, first, added, strict=True):
            total.add_incoming(start, before)
            total.add_incoming(end, body)
        builder.position_at_end(after)
        for t, total in enumerate(added):
            builder.store(total, self._sum(t), align=4)

    def _lanes(self, pointer: Any, place: Any) -> Any:
        """Pointer to LANES numbers from `place` on."""
        return self.builder.bitcast(self.builder.gep(pointer, [place]), self.vector.as_pointer())

    def _sum(self, t: int) -> Any:
        return self._lanes(self.sums, _constant(t * LANES))

    def _everywhere(self, number: Any) -> Any:
        """Register with the number in all lanes."""
        nothing = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(nothing, number, ir.Constant(_LANE, 0))
        zeros = ir.Constant(ir.VectorType(_LANE, LANES), [ir.Constant(_LANE, 0)] * LANES)
        return self.builder.shuffle_vector(first, nothing, zeros)


def _constant(value: int) -> ir.Constant:
    return ir.Constant(_INDEX, value)
