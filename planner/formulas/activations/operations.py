"""Elementwise operations as autograd runs them: what each makes, saves and needs backward.

Read in torch 2.13.0, tools/autograd/derivatives.yaml and FunctionsManual.cpp, and
compared with the trace of a dispatch mode. Closures hold shapes and names, never
tensors: a closure that held a tensor would keep its storage alive. Whatever an operation
makes is on the tape of its operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.formulas.activations.tape import Backward, Frozen, Gradients, Node, Storage, Tensor

FP32 = "fp32"


def record(
    storage: Storage,
    shape: str,
    width: str,
    inputs: Sequence[Tensor],
    backward: Backward | None = None,
    saved: Sequence[Storage | Frozen] = (),
) -> Tensor:
    """The output tensor, with a node when an input needs a gradient.

    Without a word ``backward`` makes every such input a gradient of its own.
    """
    if all(tensor.node is None for tensor in inputs):
        return Tensor(storage, shape, width)
    node = Node(storage.tape, inputs, saved, backward or fresh_gradients(*inputs))
    return Tensor(storage, shape, width, node)


def made(
    x: Tensor,
    name: str,
    *,
    shape: str = "",
    width: str = "",
    backward: Backward | None = None,
    saved: Sequence[Storage | Frozen] = (),
) -> Tensor:
    """A new tensor from one other, in its shape and number format unless told otherwise."""
    shape, width = shape or x.shape, width or x.width
    return record(x.tape.new(shape, width, name), shape, width, [x], backward, saved)


def fresh_gradients(*inputs: Tensor) -> Backward:
    """A backward that makes a gradient for each input that needs one."""
    tape = inputs[0].tape
    wanted = [signature(tensor) if tensor.node is not None else None for tensor in inputs]
    return lambda _: [tape.new(*item) if item else None for item in wanted]


def gradient_name(name: str) -> str:
    """What a person calls the gradient of a tensor."""
    return name if name.startswith("gradient") else f"gradient of {name}"


def promoted(*tensors: Tensor) -> str:
    """Number format of a result: fp32 as soon as one operand is."""
    return FP32 if any(tensor.width == FP32 for tensor in tensors) else tensors[0].width


def fitted(gradient: Storage, wanted: tuple[str, str, str]) -> Storage:
    """The gradient summed and cast to the shape and format of its tensor's signature."""
    shape, width, name = wanted
    if gradient.label[0].shape != shape:
        gradient = gradient.tape.new(shape, gradient.label[0].width, name)
    if gradient.label[0].width != width:
        gradient = gradient.tape.new(shape, width, name)
    return gradient


def signature(tensor: Tensor) -> tuple[str, str, str]:
    """Shape, number format and gradient name: what a closure may keep of a tensor."""
    return tensor.shape, tensor.width, gradient_name(tensor.name)


def cast(x: Tensor, width: str, name: str) -> Tensor:
    """``x.to(dtype)``; the same tensor when it has that format already."""
    return x if x.width == width else made(x, name, width=width)


def unary(x: Tensor, name: str, *, saves: str = "", scratch: int = 0) -> Tensor:
    """One tensor in, one out; ``saves`` is ``input``, ``output`` or nothing.

    ``scratch`` counts the tensors of the same size that backward makes on its way.
    """
    tape, wanted = x.tape, signature(x)
    output = tape.new(x.shape, x.width, name)
    kept = {"": (), "input": (x.storage,), "output": (output,)}[saves]

    def backward(_: Gradients) -> Gradients:
        temporary = [tape.new(*wanted[:2], "backward scratch") for _ in range(scratch)]
        result = tape.new(*wanted)
        del temporary
        return [result]

    return record(output, x.shape, x.width, [x], backward, kept)


def square(x: Tensor) -> Tensor:
    """``x.pow(2)``; backward makes ``x.pow(1)`` and twice it before the product."""
    return unary(x, "squares", saves="input", scratch=2)


def mean(x: Tensor, shape: str, name: str) -> Tensor:
    """Mean over the last dimension; backward spreads the gradient to full size again."""
    return made(x, name, shape=shape)


def add(first: Tensor, second: Tensor, name: str) -> Tensor:
    """Sum; both operands get the same gradient storage unless a format differs."""
    width = promoted(first, second)
    wanted = (signature(first), signature(second))

    def backward(gradients: Gradients) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [fitted(gradient, item) for item in wanted]

    output = first.tape.new(first.shape, width, name)
    return record(output, first.shape, width, [first, second], backward)


def multiply(first: Tensor, second: Tensor, name: str) -> Tensor:
    """Product of ``first`` and a tensor of its shape or one that broadcasts to it."""
    tape, shape, width = first.tape, first.shape, promoted(first, second)
    output = tape.new(shape, width, name)
    wanted = [signature(item) if item.node is not None else None for item in (first, second)]

    def backward(_: Gradients) -> Gradients:
        products = [tape.new(shape, width, item[2]) if item else None for item in wanted]
        for index, item in enumerate(wanted):
            # Summed first: the whole product is gone before its sum is cast.
            for form in (width, item[1]) if item else ():
                product = products[index]
                assert item and product is not None
                products[index] = fitted(product, (item[0], form, item[2]))
                del product
        return products

    return record(output, shape, width, [first, second], backward, operands_saved(first, second))


def operands_saved(first: Tensor, second: Tensor) -> list[Storage]:
    """What a product keeps: each operand, for the gradient of the other."""
    pairs = ((first, second), (second, first))
    return [operand.storage for operand, other in pairs if other.node is not None]


def leaf(storage: Storage, shape: str, width: str, backward: Backward = lambda _: []) -> Tensor:
    """A tensor whose gradient goes nowhere further, such as one made from a weight."""
    return Tensor(storage, shape, width, Node(storage.tape, (), (), backward))


def view(x: Tensor, shape: str, *, copied: str = "") -> Tensor:
    """Another view of the storage; ``copied`` names the shape backward must copy to, if any."""
    name = gradient_name(x.name)

    def backward(gradients: Gradients) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [gradient.tape.new(copied, gradient.label[0].width, name) if copied else gradient]

    return record(x.storage, shape, x.width, [x], backward)


def piece(x: Tensor, shape: str) -> Tensor:
    """A slice; backward writes the gradient into zeros of the whole."""
    return record(x.storage, shape, x.width, [x])


def join(parts: Sequence[Tensor], shape: str, name: str) -> Tensor:
    """Concatenation; backward hands out views of the one gradient."""
    count, width = len(parts), parts[0].width
    output = parts[0].tape.new(shape, width, name)
    return record(output, shape, width, parts, lambda g: [g[0]] * count)


def split(x: Tensor, shapes: Sequence[str]) -> list[Tensor]:
    """Views of one storage; backward concatenates their gradients."""
    node = None
    if x.node is not None:
        node = Node(x.tape, [x], (), fresh_gradients(x), outputs=len(shapes))
    return [Tensor(x.storage, shape, x.width, node, index) for index, shape in enumerate(shapes)]


def copy(x: Tensor, name: str, shape: str = "") -> Tensor:
    """``contiguous()``, a ``reshape`` that copies, a constant added; the gradient passes on."""
    return made(x, name, shape=shape, backward=lambda gradients: [gradients[0]])


def dropout(x: Tensor, name: str, *, kernels: str) -> Tensor:
    """Active dropout; CUDA keeps a boolean mask, the CPU noise in the input's format."""
    width = "bool" if kernels == "cuda" else x.width
    mask = x.tape.new(x.shape, width, f"dropout mask of {x.name}")
    return made(x, name, saved=(mask,))
