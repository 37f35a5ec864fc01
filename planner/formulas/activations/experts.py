"""A sparse MLP as transformers runs it on a GPU: router, sort, two grouped products.

``integrations/moe.py`` of transformers 5.23.0: ``grouped_mm_experts_forward``, which
is what every model gets unless told otherwise (on a CPU too, with torch 2.13). Each
token is copied once for every expert it is sent to, and the copies are sorted by
expert, so sizes are the same whichever experts are chosen. Local variables follow the
modeling files: how long Python holds a tensor decides what is alive.

Autocast does not know ``grouped_mm``, so fp32 experts compute in fp32.
"""

from __future__ import annotations

from planner.formulas.activations import adapters
from planner.formulas.activations import operations as op
from planner.formulas.activations.linears import activated, linear, weight_gradient
from planner.formulas.activations.setting import Layer
from planner.formulas.activations.tape import Gradients, Product, Storage, Tensor


def sparse_mlp(layer: Layer, hidden_states: Tensor) -> Tensor:
    """``SparseMoeBlock``: its frame holds the router's logits to its end."""
    _, routing_weights, selected = _router(layer, hidden_states)
    return _grouped_experts(layer, hidden_states, selected, routing_weights)


def _router(layer: Layer, hidden_states: Tensor) -> tuple[Tensor, Tensor, Storage]:
    """``TopKRouter``: logits, weights of the chosen experts, and their indices."""
    router_logits = linear(layer, hidden_states, "router", "router logits", "mlp.gate")
    wide = op.cast(router_logits, op.FP32, "router logits in fp32")
    router_probs = op.unary(wide, "router probabilities", saves="output")
    del wide
    indices = layer.tape.new("routed", "int64", "chosen experts")
    top_value = op.made(
        router_probs, "chosen experts' probabilities", shape="routed", saved=(indices,)
    )
    if layer.arch.routing_normalised:
        top_value = _normalised(top_value)
    if not layer.arch.routing_fp32:
        top_value = op.cast(top_value, router_logits.width, "routing weights")
    return router_logits, top_value, indices


def _normalised(values: Tensor) -> Tensor:
    """``values /= values.sum()``, in place: autograd keeps the values from before."""
    tape = values.tape
    tape.launch()
    # Its gradient is spread over the experts by a view.
    total = op.copy(values, "sum of chosen probabilities", "token")
    saved: tuple[Storage, ...] = ()
    if values.node is not None:
        saved = (total.storage, tape.new("routed", op.FP32, "probabilities before division", ()))
    wanted = (op.signature(values), op.signature(total))

    def backward(_: Gradients) -> Gradients:
        result = tape.new(*wanted[0])
        scratch = [tape.new("routed", op.FP32, "backward scratch") for _ in range(2)]
        gradients: Gradients = [result, tape.new(*wanted[1])]
        del scratch
        return gradients

    return op.record(values.storage, "routed", op.FP32, [values, total], backward, saved)


def _grouped_experts(
    layer: Layer, hidden_states: Tensor, expert_ids: Storage, sample_weights: Tensor
) -> Tensor:
    tape = layer.tape
    changed = adapters.activated(layer)
    expert_ids_g = tape.new("routed", "int64", "chosen experts, sorted", ())
    # Sorting gives both at once.
    perm = tape.new("routed", "int64", "order of the routed tokens")
    rows = tape.new("routed", "int64", "token of each routed row", ())
    selected = _gathered(hidden_states, "routed hidden", "routed tokens", rows)
    del rows
    weights_g = _gathered(sample_weights, "routed", "routing weights, sorted", perm)
    histc_input = tape.new("routed", "int32", "chosen experts to count", ())
    counts = tape.new("expert", "int32", "tokens of each expert", ())
    offsets = tape.new("expert", "int32", "last row of each expert", ())
    proj_out = _grouped_linear(
        layer,
        selected,
        "routed gate-up",
        "experts' gate and up projection",
        offsets,
        changed,
    )
    proj_out = _gate(layer, proj_out)
    proj_out = _grouped_linear(
        layer, proj_out, "routed hidden", "experts' outputs", offsets, changed
    )
    weighted = op.multiply(proj_out, weights_g, "weighted outputs of experts")
    inverse = tape.new("routed", "int64", "place of each routed row", ())
    counting = tape.new("routed", "int64", "rows in order", ())
    del counting
    weighted = _gathered(
        weighted, "routed hidden", "weighted outputs in the tokens' order", inverse
    )
    final = op.made(weighted, "MLP output", shape="hidden")
    result = op.cast(final, hidden_states.width, "MLP output")
    # Integers that nothing saves stay until the function returns.
    del expert_ids, expert_ids_g, histc_input, counts, changed
    return result


def _gathered(x: Tensor, shape: str, name: str, indices: Storage) -> Tensor:
    """``x[indices]``; backward adds the rows into zeros of the whole, which it reads again."""
    added = op.fresh_gradients(x, read=((shape, x.width), x.kind, x.kind))
    return op.made(x, name, shape=shape, backward=added, saved=(indices,))


def _grouped_linear(
    layer: Layer, x: Tensor, shape: str, name: str, offsets: Storage, adapted: adapters.Changed
) -> Tensor:
    """One product for all experts over the sorted rows, by the weights as adapters change them."""
    tape, trained = layer.tape, layer.setting.all_weights
    tensor = "down_proj" if shape == "routed hidden" else "gate_up_proj"
    changed = adapted.of(tensor)
    tape.modules.append(Product(f"mlp.experts.{tensor}", x.shape, shape, name, rows="routed"))
    x = op.cast(x, layer.setting.weight, f"{x.name} in the weights' format")
    learns = changed is not None and changed.node is not None
    saved = [offsets, x.storage] if trained or learns else [offsets]
    weight = adapters.SHAPES[tensor][0]
    operands = [x]
    if changed is not None:
        operands.append(changed)
        if x.node is not None:
            saved.append(changed.storage)
    gradients, width = op.fresh_gradients(*operands), x.width

    def backward(given: Gradients) -> Gradients:
        made = gradients(given)
        if trained:
            weight_gradient(layer, weight, width)
        return made

    output = tape.new(shape, x.width, name)
    return op.record(output, shape, x.width, operands, backward, saved, closed=True)


def _gate(layer: Layer, gate_up: Tensor) -> Tensor:
    """``act(gate) * up``, two views of one storage."""
    gate, up = op.split(gate_up, ("routed intermediate", "routed intermediate"))
    return op.multiply(activated(layer, gate, "activated gate of experts"), up, "gated product")
