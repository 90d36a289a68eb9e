"""One stage after another, in dictionaries, with the embeddings' sum as an additional term."""

from fractions import Fraction

from ringside.scale.hybrid_cost import axis_link


def num_parameters(model):
    h = model.hidden
    layer = 4 * h * h + 4 * h + 8 * h * h + 5 * h + 4 * h  # attention, MLP, two norms
    return model.num_layers * layer + (model.vocabulary + model.sequence) * h + 2 * h


def step_flops(model, recompute=True):
    l, h, s = model.num_layers, model.hidden, model.sequence  # noqa: E741
    tokens = model.batch * s
    share = 1 + Fraction(s, 6 * h) + Fraction(model.vocabulary, (16 if recompute else 12) * l * h)
    return float((96 if recompute else 72) * tokens * l * h * h * share)


def training_days(parameters, tokens, num_gpus, flop_per_s):
    seconds = 8.0 * parameters * tokens / num_gpus / flop_per_s
    return seconds / 3600 / 24


def state_bytes(parameters, data, zero):
    shard = (parameters + data - 1) // data
    return sum(
        size * (shard if zero >= stage else parameters)
        for size, stage in ((2, 3), (2, 2), (12, 1))
    )


def microbatches(model, config):
    return model.batch // config.microbatch_size // config.data


def memory_bytes(model, config):
    per_stage = []
    for stage in range(config.pipeline):
        whole, more = divmod(model.num_layers, config.pipeline)
        layers = whole + (stage < more)
        outside = (model.vocabulary + model.sequence) * model.hidden if stage == 0 else 0
        psi = -(-(layers * (12 * model.hidden + 13) * model.hidden + outside) // config.tensor)
        tokens = model.sequence * config.microbatch_size
        full = tokens * model.hidden * (10 + 24 / config.tensor)
        held = min(microbatches(model, config), config.pipeline - stage)
        small = 2 * tokens * model.hidden
        kept = held * layers * (small if config.recompute == "full" else full)
        kept += full if config.recompute == "full" else 0
        per_stage.append(state_bytes(psi, config.data, config.zero) + kept)
    return max(per_stage)


def sent_bytes(model, config, element_bytes=2):
    sent = {"data": 0.0, "tensor": 0.0, "pipeline": 0}
    m, h, t, d = microbatches(model, config), model.hidden, config.tensor, config.data
    message = model.sequence * config.microbatch_size * h * element_bytes
    for _ in range(model.num_layers // config.pipeline):
        cut, whole = 12 * h * h + 7 * h, 6 * h
        gradients = (cut / t + whole) * element_bytes
        scatters, gathers = [(1, 1), (1, 1), (m, 1), (m, 2 * m)][config.zero]
        sent["data"] += (scatters + gathers) * (gradients - gradients / d)
        for _ in ("forward", "backward") + ("again",) * (config.recompute == "full"):
            sent["tensor"] += m * 2 * 2 * (message - message / t)
    if config.pipeline > 1:
        neighbours = 1 if config.pipeline == 2 else 2
        sent["pipeline"] = m * config.interleave * message * neighbours
    return sent


def step_s(model, config, machine, element_bytes=2):
    s, h, b, t, p = (
        model.sequence, model.hidden, config.microbatch_size, config.tensor, config.pipeline
    )  # fmt: skip
    links = {axis: axis_link(config, axis, machine) for axis in ("tensor", "pipeline", "data")}

    def ring(nbytes, axis):
        size = getattr(config, axis)
        steps = 2 * (size - 1)
        return steps * links[axis].alpha_s + steps * nbytes / size * links[axis].beta_s_per_byte

    message = s * b * h * element_bytes
    passes = {"none": 3, "full": 4}[config.recompute]
    flop_s = 1 / t / machine.flop_per_s
    layer_s = passes * b * (24 * s * h * h + 4 * s * s * h) * flop_s
    layer_s += 2 * (passes - 1) * ring(message, "tensor")
    hop_s = links["pipeline"].alpha_s + message * links["pipeline"].beta_s_per_byte
    times = []
    for stage in range(p):
        layers = model.num_layers // p + (1 if stage < model.num_layers % p else 0)
        times.append(layers * layer_s + 2 * config.interleave * hop_s)
    times[-1] += 3 * b * 2 * s * h * model.vocabulary * flop_s
    slowest = max(times)
    embedding = (model.vocabulary + s) * h
    first = -(-model.num_layers // p) * (12 * h * h + 13 * h) + embedding
    ends_s = 0.0
    if p > 1:
        nbytes = model.vocabulary * h / t * element_bytes
        ends_s = nbytes * links["pipeline"].beta_s_per_byte / 2
    rest = (sum(times) - slowest) / config.interleave
    m = microbatches(model, config)
    return m * slowest + rest + ring(first / t * element_bytes, "data") + ends_s
