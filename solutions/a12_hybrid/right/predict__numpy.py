"""Arrays over stages; numbers come back as NumPy's."""

import numpy as np
from predict_parts import forward_flops, message_s, ring_s


def num_parameters(model):
    layer = np.array([12, 13, 0], dtype=np.int64) @ np.array([model.hidden**2, model.hidden, 0])
    return model.num_layers * layer + np.int64(model.vocabulary + model.sequence) * model.hidden


def step_flops(model, recompute=True):
    passes = np.array([4 if recompute else 3, 3])
    return np.float64(model.batch) * (
        passes * np.array([model.num_layers, 1.0]) @ np.array(forward_flops(model), dtype=float)
    )


def training_days(parameters, tokens, num_gpus, flop_per_s):
    return np.float64(8 * tokens * parameters) / (86400 * num_gpus * flop_per_s)


def state_bytes(parameters, data, zero):
    sizes = np.array([12, 2, 2], dtype=object)
    cut = np.arange(3) < zero
    return int(np.where(cut, -(-parameters // data), parameters) @ sizes)


def memory_bytes(model, config):
    layers = int(np.ceil(model.num_layers / config.pipeline))
    h, s, b, t = model.hidden, model.sequence, config.microbatch_size, config.tensor
    psi = layers * (12 * h + 13) * h + (model.vocabulary + s) * h
    again = config.recompute == "full"
    layer = s * b * np.array([10 * h, 24 * h / t]).sum()
    in_flight = min(model.batch // (config.data * b), config.pipeline)
    kept = in_flight * layers * (2 * s * b * h if again else layer)
    return state_bytes(-(-psi // t), config.data, config.zero) + kept + layer * again


def sent_bytes(model, config, element_bytes=2):
    h, t, d, p = model.hidden, config.tensor, config.data, config.pipeline
    m, again = model.batch / (d * config.microbatch_size), config.recompute == "full"
    message = m * model.sequence * config.microbatch_size * h * element_bytes
    layers = model.num_layers / p
    passes = np.select([config.zero == 3, config.zero == 2], [3 * m, m + 1], 2)
    gradients = layers * element_bytes * (12 * h * h / t + 7 * h / t + 6 * h)
    return {
        "tensor": np.float64(layers * message * (2 + again) * 4 * (1 - 1 / t)),
        "pipeline": np.float64(message * config.interleave * np.clip(p - 1, 0, 2)),
        "data": np.float64(passes * gradients * (1 - 1 / d)),
    }


def step_s(model, config, machine, element_bytes=2):
    h, b, p = model.hidden, config.microbatch_size, config.pipeline
    message = model.sequence * b * h * element_bytes
    layer, logits = np.array(forward_flops(model)) * b / config.tensor / machine.flop_per_s
    again = config.recompute == "full"
    layer = layer * (3 + again)
    layer = layer + (4 + 2 * again) * ring_s(message, config, "tensor", machine)
    counts = np.full(p, model.num_layers // p) + (np.arange(p) < model.num_layers % p)
    stages = counts * layer + 2 * config.interleave * message_s(message, config, machine)
    stages[-1] += 3 * logits
    m = model.batch // (config.data * b)
    last = counts[0] * (12 * h + 13) * h + (model.vocabulary + model.sequence) * h
    data_s = ring_s(last * element_bytes / config.tensor, config, "data", machine)
    wait_s = (stages.sum() - stages.max()) / config.interleave
    return m * stages.max() + wait_s + data_s
