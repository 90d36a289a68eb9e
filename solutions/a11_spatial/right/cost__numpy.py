"""All layers at once, as arrays."""

import numpy as np

WAYS = ("data", "filter", "domain")


def columns(layers):
    h, w, c, o, kh, kw = np.array(layers, dtype=np.int64).T
    return h, w, c, o, kh, kw


def data_bytes(layers, batch, world_size, itemsize=4):
    h, w, c, o, kh, kw = columns(layers)
    return int(2 * (world_size - 1) * itemsize * (kh * kw * c * o).sum())


def filter_bytes(layers, batch, world_size, itemsize=4):
    h, w, c, o, kh, kw = columns(layers)
    elements = (h * w * o).sum() + (h * w * c)[1:].sum()
    return float((world_size - 1) * batch * itemsize * elements)


def _halo_sizes(layers, batch):
    h, w, c, o, kh, kw = columns(layers)
    return batch * np.concatenate([w * c * (kh // 2), (w * o * (kh // 2))[1:]])


def domain_bytes(layers, batch, world_size, itemsize=4):
    sent = 2 * (world_size - 1) * _halo_sizes(layers, batch).sum() * itemsize
    return sent + data_bytes(layers, batch, world_size, itemsize)


def data_s(layers, batch, world_size, machine, itemsize=4):
    latency = 2 * (world_size - 1) * len(layers) * machine.alpha_s
    nbytes = data_bytes(layers, batch, world_size, itemsize) / world_size
    return latency + nbytes * machine.beta_s_per_byte


def filter_s(layers, batch, world_size, machine, itemsize=4):
    latency = (world_size - 1) * (2 * len(layers) - 1) * machine.alpha_s
    nbytes = filter_bytes(layers, batch, world_size, itemsize) / world_size
    return latency + nbytes * machine.beta_s_per_byte


def domain_s(layers, batch, world_size, machine, itemsize=4):
    sizes = _halo_sizes(layers, batch) * itemsize
    near = np.clip(world_size - 1, 0, 2)
    halos = np.where(sizes * near > 0, machine.alpha_s + near * sizes * machine.beta_s_per_byte, 0)
    return float(halos.sum()) + data_s(layers, batch, world_size, machine, itemsize)


def best(layers, batch, world_size, machine, itemsize=4):
    h, w, c, o, kh, kw = columns(layers)
    passes = np.full(len(layers), 3)
    passes[0] = 2
    work = passes * 2.0 * batch * kh * kw * c * o * h * w / machine.flop_per_s
    counts = {"data": np.full_like(h, batch), "filter": o, "domain": h}
    least = {"data": 1, "filter": 1, "domain": np.maximum(1, kh // 2)}
    times = [(data_s, "data"), (filter_s, "filter"), (domain_s, "domain")]
    found = {}
    for seconds, way in times:
        if np.all(counts[way] // world_size >= least[way]):
            shares = np.ceil(counts[way] / world_size) / counts[way]
            found[way] = seconds(layers, batch, world_size, machine, itemsize) + work @ shares
    if not found:
        raise ValueError(f"not possible on {world_size} ranks")
    return sorted(found, key=found.get)[0]
