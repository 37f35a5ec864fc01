"""Elementwise operations as autograd runs them: what each makes, saves and needs backward.

Read in torch 2.13.0, tools/autograd/derivatives.yaml and FunctionsManual.cpp, and
compared with the trace of a dispatch mode. Closures hold shapes and names, never
tensors: a closure that held a tensor would keep its storage alive.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.formulas.activations.tape import (
    Backward,
    Frozen,
    Gradients,
    Node,
    Storage,
    Tape,
    Tensor,
)

FP32 = "fp32"


def record(
    tape: Tape,
    storage: Storage,
    shape: str,
    width: str,
    inputs: Sequence[Tensor],
    backward: Backward,
    saved: Sequence[Storage | Frozen] = (),
) -> Tensor:
    """The output tensor, with a node when an input needs a gradient."""
    if all(tensor.node is None for tensor in inputs):
        return Tensor(storage, shape, width)
    return Tensor(storage, shape, width, Node(tape, inputs, saved, backward))


def gradient_name(name: str) -> str:
    """What a person calls the gradient of a tensor."""
    return name if name.startswith("gradient") else f"gradient of {name}"


def promoted(*tensors: Tensor) -> str:
    """Number format of a result: fp32 as soon as one operand is."""
    return FP32 if any(tensor.width == FP32 for tensor in tensors) else tensors[0].width


def fitted(tape: Tape, gradient: Storage, wanted: Tensor | tuple[str, str, str]) -> Storage:
    """The gradient summed and cast to the shape and format of its tensor."""
    shape, width, name = wanted if isinstance(wanted, tuple) else signature(wanted)
    if gradient.label[0] == (shape, width):
        return gradient
    if gradient.label[0][0] != shape:
        gradient = tape.new(shape, gradient.label[0][1], name)
    if gradient.label[0][1] != width:
        gradient = tape.new(shape, width, name)
    return gradient


def signature(tensor: Tensor) -> tuple[str, str, str]:
    """Shape, number format and gradient name: what a closure may keep of a tensor."""
    return tensor.shape, tensor.width, gradient_name(tensor.name)


def cast(tape: Tape, x: Tensor, width: str, name: str) -> Tensor:
    """``x.to(dtype)``; the same tensor when it has that format already."""
    if x.width == width:
        return x
    wanted = signature(x)
    return record(
        tape, tape.new(x.shape, width, name), x.shape, width, [x], lambda _: [tape.new(*wanted)]
    )


def unary(tape: Tape, x: Tensor, name: str, *, saves: str = "", scratch: int = 0) -> Tensor:
    """One tensor in, one out; ``saves`` is ``input``, ``output`` or nothing.

    ``scratch`` counts the tensors of the same size that backward makes on its way.
    """
    output = tape.new(x.shape, x.width, name)
    wanted = signature(x)
    kept = {"": (), "input": (x.storage,), "output": (output,)}[saves]

    def backward(_: Gradients) -> Gradients:
        temporary = [tape.new(wanted[0], wanted[1], "backward scratch") for _ in range(scratch)]
        result = tape.new(*wanted)
        del temporary
        return [result]

    return record(tape, output, x.shape, x.width, [x], backward, kept)


def square(tape: Tape, x: Tensor) -> Tensor:
    """``x.pow(2)``; backward makes ``x.pow(1)`` and twice it before the product."""
    return unary(tape, x, "squares", saves="input", scratch=2)


def shift(tape: Tape, x: Tensor, name: str) -> Tensor:
    """A constant added; backward passes the gradient on."""
    return copy(tape, x, x.shape, name)


def mean(tape: Tape, x: Tensor, shape: str, name: str) -> Tensor:
    """Mean over the last dimension; backward spreads the gradient to full size again."""
    wanted = signature(x)
    return record(
        tape, tape.new(shape, x.width, name), shape, x.width, [x], lambda _: [tape.new(*wanted)]
    )


def add(tape: Tape, first: Tensor, second: Tensor, name: str) -> Tensor:
    """Sum; both operands get the same gradient storage unless a format differs."""
    width = promoted(first, second)
    wanted = (signature(first), signature(second))

    def backward(gradients: Gradients) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [fitted(tape, gradient, wanted[0]), fitted(tape, gradient, wanted[1])]

    output = tape.new(first.shape, width, name)
    return record(tape, output, first.shape, width, [first, second], backward)


def multiply(tape: Tape, first: Tensor, second: Tensor, name: str) -> Tensor:
    """Product of ``first`` and a tensor of its shape or one that broadcasts to it."""
    width = promoted(first, second)
    output = tape.new(first.shape, width, name)
    saved = [
        operand.storage
        for operand, other in ((first, second), (second, first))
        if other.node is not None
    ]
    shape = first.shape
    wanted = [
        signature(operand) if operand.node is not None else None for operand in (first, second)
    ]

    def backward(_: Gradients) -> Gradients:
        products = [tape.new(shape, width, item[2]) if item else None for item in wanted]
        for index, item in enumerate(wanted):
            # Summed first: the whole product is gone before its sum is cast.
            for form in (width, item[1]) if item else ():
                product = products[index]
                assert item and product is not None
                products[index] = fitted(tape, product, (item[0], form, item[2]))
                del product
        return products

    return record(tape, output, shape, width, [first, second], backward, saved)


def leaf(tape: Tape, storage: Storage, shape: str, width: str) -> Tensor:
    """A tensor whose gradient goes nowhere further, such as one made from a weight."""
    return Tensor(storage, shape, width, Node(tape, (), (), lambda _: []))


def view(tape: Tape, x: Tensor, shape: str, *, copied: str = "") -> Tensor:
    """Another view of the storage; ``copied`` names the shape backward must copy to, if any."""
    name = gradient_name(x.name)

    def backward(gradients: Gradients) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [tape.new(copied, gradient.label[0][1], name) if copied else gradient]

    return record(tape, x.storage, shape, x.width, [x], backward)


def piece(tape: Tape, x: Tensor, shape: str) -> Tensor:
    """A slice; backward writes the gradient into zeros of the whole."""
    wanted = signature(x)
    return record(tape, x.storage, shape, x.width, [x], lambda _: [tape.new(*wanted)])


def join(tape: Tape, parts: Sequence[Tensor], shape: str, name: str) -> Tensor:
    """Concatenation; backward hands out views of the one gradient."""
    count = len(parts)
    output = tape.new(shape, parts[0].width, name)
    return record(tape, output, shape, parts[0].width, parts, lambda g: [g[0]] * count)


def split(tape: Tape, x: Tensor, shapes: Sequence[str]) -> list[Tensor]:
    """Views of one storage; backward concatenates their gradients."""
    if x.node is None:
        return [Tensor(x.storage, shape, x.width) for shape in shapes]
    wanted = signature(x)
    node = Node(tape, [x], (), lambda _: [tape.new(*wanted)], outputs=len(shapes))
    return [Tensor(x.storage, shape, x.width, node, index) for index, shape in enumerate(shapes)]


def copy(tape: Tape, x: Tensor, shape: str, name: str) -> Tensor:
    """``contiguous()`` or ``reshape`` that has to copy; backward passes the gradient on."""
    return record(tape, tape.new(shape, x.width, name), shape, x.width, [x], lambda g: [g[0]])


def dropout(tape: Tape, x: Tensor, name: str, *, kernels: str) -> Tensor:
    """Active dropout; CUDA keeps a boolean mask, the CPU noise in the input's format."""
    mask = tape.new(x.shape, "bool" if kernels == "cuda" else x.width, f"dropout mask of {x.name}")
    output = tape.new(x.shape, x.width, name)
    wanted = signature(x)
    return record(tape, output, x.shape, x.width, [x], lambda _: [tape.new(*wanted)], (mask,))
