"""Elementwise operations as autograd runs them: what each makes, saves and needs backward.

Read in torch 2.13.0, tools/autograd/derivatives.yaml and FunctionsManual.cpp, and
compared with the trace of a dispatch mode. Closures hold shapes and names, never
tensors: a closure that held a tensor would keep its storage alive. Whatever an operation
makes is on the tape of its operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.formulas.activations.kinds import Form
from planner.formulas.activations.tape import Backward, Frozen, Gradients, Node, Storage, Tensor

FP32 = "fp32"


def record(
    storage: Storage,
    shape: str,
    width: str,
    inputs: Sequence[Tensor],
    backward: Backward | None = None,
    saved: Sequence[Storage | Frozen] = (),
    *,
    closed: bool = False,
) -> Tensor:
    """The output tensor, with a node when an input needs a gradient.

    Without a word ``backward`` makes every such input a gradient of its own, from the output's and
    what was saved. What makes no storage is a view, which launches nothing; a ``closed`` kernel is
    a product or attention.
    """
    output = shape, width
    if closed:
        storage.tape.launch()
    elif all(tensor.storage is not storage for tensor in inputs):
        storage.tape.launch(*(tensor.kind for tensor in inputs), writes=(output,))
    if all(tensor.node is None for tensor in inputs):
        return Tensor(storage, shape, width)
    if backward is None:
        read = () if closed else (output, *(s.form for s in saved if isinstance(s, Storage)))
        backward = fresh_gradients(*inputs, read=read)
    return Tensor(storage, shape, width, Node(storage.tape, inputs, saved, backward))


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


def fresh_gradients(*inputs: Tensor, read: tuple[Form, ...] = ()) -> Backward:
    """A backward that makes a gradient for each input that needs one, of what it has ``read``."""
    tape = inputs[0].tape
    wanted = [signature(tensor) if tensor.node is not None else None for tensor in inputs]

    return lambda _: [tape.new(*item, read or None) if item else None for item in wanted]


def gradient_name(name: str) -> str:
    """What a person calls the gradient of a tensor."""
    return name if name.startswith("gradient") else f"gradient of {name}"


def promoted(*tensors: Tensor) -> str:
    """Number format of a result: fp32 as soon as one operand is."""
    return FP32 if any(tensor.width == FP32 for tensor in tensors) else tensors[0].width


def fitted(gradient: Storage, wanted: tuple[str, str, str], view: str = "") -> Storage:
    """The gradient summed and cast to the shape and format of its tensor's signature.

    ``view`` is the shape of what arrives where that is less than its storage.
    """
    shape, width, name = wanted
    for form in (gradient.form[1], width):
        arrived = gradient.form
        if arrived != (shape, form):
            given = view or arrived[0], arrived[1]
            read = (given,) if given != (shape, form) else None
            gradient = gradient.tape.new(shape, form, name, read)
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
    kind = x.kind
    read = (kind,) * (1 + len(kept))

    def backward(_: Gradients) -> Gradients:
        temporary = [tape.new(*kind, "backward scratch", (kind,)) for _ in range(scratch)]
        result = tape.new(*wanted, read)
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
    wanted, shape = (signature(first), signature(second)), first.shape

    def backward(gradients: Gradients) -> Gradients:
        gradient = gradients[0]
        assert gradient is not None
        return [fitted(gradient, item, shape) for item in wanted]

    output = first.tape.new(first.shape, width, name)
    return record(output, first.shape, width, [first, second], backward)


def multiply(first: Tensor, second: Tensor, name: str) -> Tensor:
    """Product of ``first`` and a tensor of its shape or one that broadcasts to it."""
    tape, shape, width = first.tape, first.shape, promoted(first, second)
    output = tape.new(shape, width, name)
    wanted = [signature(item) if item.node is not None else None for item in (first, second)]
    made, others = (shape, width), (second.kind, first.kind)

    def backward(_: Gradients) -> Gradients:
        products = [
            tape.new(*made, item[2], (made, other)) if item else None
            for item, other in zip(wanted, others, strict=True)
        ]
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
        if not copied:
            return [gradient]
        form = copied, gradient.form[1]
        return [gradient.tape.new(*form, name, (form,))]

    return record(x.storage, shape, x.width, [x], backward)


def piece(x: Tensor, shape: str) -> Tensor:
    """A slice; backward writes the gradient into zeros of the whole."""
    return record(x.storage, shape, x.width, [x])


def join(parts: Sequence[Tensor], shape: str, name: str) -> Tensor:
    """Concatenation; backward hands out views of the one gradient.

    Autocast casts parts to the first one's format, and their gradients back.
    """
    count, width, tape = len(parts), parts[0].width, parts[0].tape
    output = tape.new(shape, width, name)
    cast = [(part.kind, (part.shape, width)) for part in parts if part.width != width]
    for own, common in cast:
        tape.launch(own, writes=(common,))

    def backward(gradients: Gradients) -> Gradients:
        for own, common in cast:
            tape.launch(common, writes=(own,))
        return gradients[:1] * count

    return record(output, shape, width, parts, backward)


def split(x: Tensor, shapes: Sequence[str]) -> list[Tensor]:
    """Views of one storage; backward concatenates their gradients."""
    node = None
    if x.node is not None:
        joined = fresh_gradients(x, read=(x.kind,))
        node = Node(x.tape, [x], (), joined, outputs=len(shapes))
    return [Tensor(x.storage, shape, x.width, node, index) for index, shape in enumerate(shapes)]


def copy(x: Tensor, name: str, shape: str = "") -> Tensor:
    """``contiguous()``, a ``reshape`` that copies, a constant added; the gradient passes on."""
    return made(x, name, shape=shape, backward=lambda gradients: [gradients[0]])


def dropout(x: Tensor, name: str, *, kernels: str) -> Tensor:
    """Active dropout; CUDA keeps a boolean mask, the CPU noise in the input's format."""
    width = "bool" if kernels == "cuda" else x.width
    mask = x.tape.new(x.shape, width, f"dropout mask of {x.name}")
    return made(x, name, saved=(mask,))
