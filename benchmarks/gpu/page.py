"""The page `lectures/on_a_gpu.md`: what was measured beside what the kit's models say.

Measured numbers come from the file of results. Those of the models are computed here, by the kit:
`ringside.scale.hybrid_cost` for memory and operations of a GPT, `ringside.Machine` for the time of
the operators that the kit's meter counted. A measurement that failed leaves a dash in its row, and
the last table says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpu.results import DASH, Item, Results, giga, per, percent, shown, table, tera, two
from ringside import Machine
from ringside.scale.hybrid_cost import Config, Model, memory_bytes
from ringside.units import format_bytes, format_time

TITLE = "# The models against one GPU\n"
WRITTEN = "Written by `python benchmarks/on_a_gpu.py --page`; a test finds it stale."
NOT_RUN = (
    TITLE,
    WRITTEN,
    "",
    "**Not run.** No GPU has been measured with this kit yet: what its models assume of one is "
    "taken from data sheets and papers, as `cluster/machines/*.toml` say. One GPU and nine "
    "minutes are enough:",
    "",
    "```sh",
    "PYTHONPATH=. python benchmarks/on_a_gpu.py --minutes 9 --out build/on_a_gpu",
    "python benchmarks/on_a_gpu.py --page build/on_a_gpu/on_a_gpu.json",
    "```",
    "",
    "The first command measures matrix products by size and type, whole layers and training "
    "steps, the bytes that a layer keeps for its backward, the bytes a parameter of four kinds of "
    "training, launches, FSDP2 and DDP on one rank, a product beside copies, and FlashAttention. "
    "It ends with the kit's tests that want a GPU. On several GPUs it also fits NCCL's latency "
    "and bandwidth, and runs a ring that is written by hand. The second command keeps the results "
    "in `lectures/data/` and writes this page from them, beside the models' numbers.",
)


def page(results: dict[str, Any] | None) -> str:
    """The whole page; without results, how to get them."""
    if results is None:
        return "\n".join(NOT_RUN) + "\n"
    found = Results(results)
    parts = (
        *(head, products, layers, step_time, step_memory, activations, optimizers, launches),
        *(sharded, copies, attention, links, tests, missing),
    )
    return "\n".join(line for part in parts for line in part(found)).rstrip() + "\n"


# -- the machine -----------------------------------------------------------------------------------


def machine(found: Results, *, flop_per_s: float | None = None) -> Machine | None:
    """The kit's machine with the numbers of the data sheet, and another rate of products if given.

    What starting a kernel costs is the assumption of the kit's presets.
    """
    peak, memory = found.peak("bf16"), found.peak("memory_byte_per_s")
    if peak is None or memory is None:
        return None
    return Machine.load("dgx_a100").with_(
        name=found.facts["device"], flop_per_s=flop_per_s or peak, memory_bytes_per_s=memory
    )


def head(found: Results) -> Iterator[str]:
    """Where and with what."""
    facts = found.facts
    software = ", ".join(
        f"{name} {facts[key]}"
        for key, name in (
            *(("torch", "torch"), ("cuda", "CUDA"), ("cudnn", "cuDNN"), ("nccl", "NCCL")),
            ("python", "Python"),
        )
        if facts.get(key)
    )
    driver = (facts.get("nvidia_smi") or {}).get("driver_version")
    spent_s = sum(section["seconds"] for section in found.sections.values())
    yield from (TITLE, WRITTEN, "")
    yield (
        f"Measured on {facts['date']} on {facts['device']}, with {software}"
        + (f", driver {driver}" if driver else "")
        + f", in {spent_s / 60:.0f} minutes. All results: `lectures/data/on_a_gpu.json`."
    )
    if facts["small"]:
        yield "**In small, as the tests run it: no time on this page means anything.**"
    yield ""
    sheet = facts.get("data_sheet")
    source = f"the data sheet ({sheet['source']})" if sheet else "no data sheet known to the kit"
    yield (
        f"Peaks are those of {source}. A time is the median of repeated calls on fresh random data."
    )
    yield ""


def products(found: Results) -> Iterator[str]:
    """Rates by size and type."""
    items = found.items("products")
    kinds = ("fp32", "tf32", "bf16", "fp8", "fp8 fast")
    sizes = sorted({item["n"] for item in items.values() if item.get("m") == item.get("n")})
    yield from ("## Matrix products", "")
    yield (
        "TFLOP/s of a product of two n x n matrices, and its share of the peak. `fp8 fast` keeps "
        "partial sums inside the tensor cores, `fp8` adds them in fp32."
    )
    yield ""

    def cell(kind: str, name: str) -> str:
        rate = found.number("products", f"{kind} {name}", "flop_per_s")
        share = per(rate, found.peak(kind.split()[0]))
        return shown(tera, rate) + ("" if share is None else f" ({share:.0%})")

    named = [name for name in ("qkv", "up", "down") if f"bf16 {name}" in items]
    rows = [[f"n = {n}", *(cell(kind, str(n)) for kind in kinds)] for n in sizes]
    for name in named:
        m, k, n = (items[f"bf16 {name}"][key] for key in "mkn")
        rows.append([f"{name}: {m} x {k} x {n}", *(cell(kind, name) for kind in kinds)])
    errors = [found.number("products", f"{kind} error", "relative_error") for kind in kinds]
    rows.append(["relative error", *(shown(lambda e: f"{e:.1e}", e) for e in errors)])
    yield from table(" | ".join(["", *kinds]), rows)


def layers(found: Results) -> Iterator[str]:
    """Rates of whole layers beside those of products."""
    yield from ("## Whole layers", "")
    yield (
        "Four layers of a GPT in bf16, with FlashAttention: the FLOPs of the kit's formula "
        "(`24 s h^2 + 4 s^2 h` forward, twice as many backward) over the measured time. The "
        "formula counts both halves of the causal scores, of which a kernel skips one. The last "
        "column compares the layer with the fastest product."
    )
    yield ""
    best = max(
        (item["flop_per_s"] for name, item in found.items("products", "bf16").items()
         if "flop_per_s" in item), default=None,
    )  # fmt: skip

    def row(name: str, item: Item) -> list[str]:
        model = Model(
            item["num_layers"], item["hidden"], item["num_heads"], item["batch"],
            sequence=item["sequence"],
        )  # fmt: skip
        flop = item["num_layers"] * item["batch"] * model.layer_flops()
        forward, both = (
            per(n * flop, item.get(key)) for n, key in ((1, "forward_s"), (3, "both_s"))
        )
        counted = per(item.get("counted_flop"), flop)
        return [
            name, shown(two, counted), shown(tera, forward), shown(tera, both),
            shown(percent, per(both, found.peak("bf16"))), shown(percent, per(both, best)),
        ]  # fmt: skip

    rows = [row(f"h = {item['hidden']}", item) for item in found.items("steps", "layer").values()]
    rows += [
        row(f"h = {item['hidden']}, torch.compile", item)
        for item in found.items("compiled").values()
    ]
    yield from table(
        "| counted by the kit over formula | forward, TFLOP/s | forward and backward, TFLOP/s "
        "| share of the peak | share of the product's rate",
        rows,
    )


def gpt(item: Item) -> Model:
    """The model of a measured step."""
    return Model(
        item["num_layers"], item["hidden"], item["num_heads"], item["batch"],
        item["vocabulary"], item["sequence"],
    )  # fmt: skip


def step_time(found: Results) -> Iterator[str]:
    """A training step: measured, and by the kit's clock."""
    steps = found.items("steps", "step")
    yield from ("## A training step: time", "")
    if not steps:
        return
    first = next(iter(steps.values()))
    yield (
        f"`benchmarks/gpt.py` on one rank: {first['parameters'] / 1e6:.0f} million parameters, "
        f"{first['num_layers']} layers of {first['hidden']}, {first['batch']} sequences of "
        f"{first['sequence']}, AdamW with fp32 masters. The kit's clock adds up the operators that "
        "its meter counted on this very run, one after another: once with the data sheet's peak, "
        "once with the rate that the product of 8192 reached."
    )
    yield ""
    reached = found.number("products", "bf16 8192", "flop_per_s")
    at_peak, at_reached = machine(found), machine(found, flop_per_s=reached)

    def row(name: str, item: Item) -> list[str]:
        tokens = item["batch"] * item["sequence"]
        model = gpt(item)
        # The literature's count: 6 for each parameter and token, 12 L h s for attention.
        flop = tokens * (
            6 * item["parameters"] + 12 * item["num_layers"] * item["hidden"] * item["sequence"]
        )
        formula = item["batch"] * (
            (4 if item["recompute"] else 3) * item["num_layers"] * model.layer_flops()
            + 3 * model.logits_flops()
        )
        predicted = [
            None if on is None else predicted_s(item["operators"], on)
            for on in (at_peak, at_reached)
        ]
        return [
            name, format_time(item["time_s"]),
            *(shown(format_time, time) for time in predicted),
            shown(two, per(predicted[1], item["time_s"])),
            two(item["counted_flop"] / formula),
            shown(percent, per(flop / item["time_s"], found.peak("bf16"))),
        ]  # fmt: skip

    yield from table(
        "| measured | clock, peak | clock, reached rate | clock over measured "
        "| counted FLOPs over formula | (6 N + 12 L h s) a token, share of the peak",
        [row("all kept" if not i["recompute"] else "recomputed", i) for i in steps.values()],
    )
    if len(steps) == 2:
        kept, again = steps.values()
        yield (
            f"Recomputation makes this step {again['time_s'] / kept['time_s']:.2f} times as long; "
            "the model says 4/3 for its layers, and nothing for the rest."
        )
        yield ""
    traced = found.items("steps").get("trace")
    if traced and traced["kernels"]:
        ops = sum(row[-1] for row in first["operators"])
        yield (
            f"The profiler sees {traced['kernels']} kernels, together "
            f"{format_time(traced['kernels_s'])} long; the kit counts {ops} operators. "
            f"`{traced['file']}` is this step for ui.perfetto.dev. The profiler's own count is "
            f"{traced['profiler_flop'] / first['counted_flop']:.0%} of the kit's FLOPs: it knows "
            "no FlashAttention."
        )
        yield ""
        yield from table(
            "kernel | seconds in a step | calls",
            [[f"`{n[:60]}`", format_time(s), str(c)] for n, s, c in traced["longest"][:8]],
        )


def predicted_s(rows: Sequence[Sequence[Any]], on: Machine) -> float:
    """Seconds of counted operators on a machine, one after another, by the kit's own roofline."""
    return sum(
        count * on.compute_s(flops, nbytes, 1, moved_bytes)
        for _, flops, nbytes, moved_bytes, count in rows
    )


def step_memory(found: Results) -> Iterator[str]:
    """A training step: the peak by formula, meter and allocator."""
    yield from ("## A training step: memory", "")
    yield (
        "The same steps. `hybrid_cost.memory_bytes` is what lecture 12 plans with. The meter is "
        "that of `Session.trace_torch`, on this run's tensors. What the allocator reserves beyond "
        "what tensors asked for is in no model. The formula is for steps of several microbatches, "
        "so it counts gradients (2 bytes a parameter) beside the activations. It also assumes a "
        "softmax in fp32, which takes 14 bytes a logit. This step has one microbatch, whose "
        "gradients come as its activations go, and `gpt.py` keeps its logits in bf16."
    )
    yield ""
    rows = []
    for item in found.items("steps", "step").values():
        recompute = "full" if item["recompute"] else "none"
        # The step that was measured takes the whole batch at once.
        config = Config(microbatch_size=item["batch"], recompute=recompute)
        formula = memory_bytes(gpt(item), config)
        counted = item["given_bytes"] + item["counted_beside_kept_bytes"]
        rows.append(
            [
                "recomputed" if item["recompute"] else "all kept",
                *(shown(format_bytes, item.get(k)) for k in ("peak_bytes", "reserved_bytes")),
                format_bytes(counted), shown(two, per(counted, item.get("peak_bytes"))),
                format_bytes(formula), shown(two, per(formula, item.get("peak_bytes"))),
            ]
        )  # fmt: skip
    yield from table(
        "| measured peak | reserved | meter | meter over measured | memory_bytes | over measured",
        rows,
    )


def activations(found: Results) -> Iterator[str]:
    """What a layer keeps."""
    yield from ("## What a layer keeps for its backward", "")
    yield (
        "Bytes of one layer in bf16, by the GPU's allocator, by the kit's meter, and by the "
        "formulas: `s b h (34 + 5 a s / h)`, `34 s b h` where the squares are recomputed or never "
        "kept, `2 s b h` where the layer is recomputed (32 and 2 without dropout). `plain` "
        "attention is written operator by operator, `math` is torch's own composition."
    )
    yield ""
    rows = []
    for name, item in found.items("activations").items():
        formula = item["formula_bytes"]
        rows.append(
            [
                name.rpartition(" ")[0].replace(" ", ", "), str(item["sequence"]),
                shown(format_bytes, item.get("allocated_bytes")),
                format_bytes(item["counted_bytes"]), format_bytes(formula),
                two((item.get("allocated_bytes") or item["counted_bytes"]) / formula),
                shown(format_bytes, item.get("peak_bytes")),
                shown(format_time, item.get("step_s")),
            ]
        )  # fmt: skip
    yield from table(
        "attention, recomputed | s | measured | meter | formula | over formula "
        "| peak of four layers | their time",
        rows,
    )


def optimizers(found: Results) -> Iterator[str]:
    """Bytes a parameter."""
    yield from ("## Bytes a parameter", "")
    yield (
        "Weights, gradients, fp32 masters and AdamW's two moments. The peak is that of an "
        "optimizer's step, where masters meet gradients of another type."
    )
    yield ""
    sheet = found.peak("memory_byte_per_s")
    rows = []
    for name, item in found.items("optimizers").items():
        # Each kept byte is read, and all but the gradients' are written.
        moved = (2 * item["kept_bytes"] - item["gradients_bytes"]) * item["parameters"]
        rows.append(
            [
                name, str(item["formula_bytes"]), two(item["kept_bytes"]),
                *(shown(two, item.get(key)) for key in ("allocated_bytes", "peak_bytes")),
                format_time(item["step_s"]), shown(percent, per(moved / item["step_s"], sheet)),
            ]
        )  # fmt: skip
    yield from table(
        "| model | tensors | allocator | peak of a step | a step "
        "| least traffic over memory's peak",
        rows,
    )


def launches(found: Results) -> Iterator[str]:
    """What starting a kernel costs."""
    yield from ("## Launches", "")
    assumed = Machine.load("dgx_a100").kernel_overhead_s
    chain, graph = (
        found.number("launches", name, "kernel_s") for name in ("chain", "chain, graph")
    )
    rows = [
        ["a kernel of a chain, one by one", shown(format_time, chain), format_time(assumed)],
        ["of which the launching thread needs", shown(
            format_time, found.number("launches", "chain", "launching_s")), DASH],
        ["a kernel of a captured graph", shown(format_time, graph), DASH],
        ["a kernel and the wait for it", shown(
            format_time, found.number("launches", "there and back", "time_s")), DASH],
    ]  # fmt: skip
    yield from table("| measured | kernel_overhead_s of the presets", rows)
    yield from table(
        "forward and backward of a layer | one by one | captured",
        [
            [f"{item['tokens']} tokens, h = {item['hidden']}", format_time(item["eager_s"]),
             shown(format_time, item.get("graph_s"))]
            for item in found.items("launches", "layer").values()
        ],
    )  # fmt: skip


def sharded(found: Results) -> Iterator[str]:
    """Buckets and gathered layers."""
    yield from ("## DDP and FSDP2 on one rank", "")
    plain = found.number("sharded", "plain", "step_s")
    rows = []
    for name, item in found.items("sharded").items():
        if "step_s" not in item:
            continue
        buckets = item.get("buckets_bytes")
        unit = max(item.get("units_bytes", [0])) or None
        rows.append(
            [
                name, format_time(item["step_s"]), shown(two, per(item["step_s"], plain)),
                DASH if buckets is None else f"{len(buckets)} ({len(item['rule_buckets_bytes'])})",
                DASH if buckets is None else format_bytes(max(buckets)),
                shown(two, per(item.get("added_bytes"), item.get("weights_bytes"))),
                shown(two, per(item.get("gathered_peak_bytes"), unit)),
                shown(two, per(item.get("left_bytes"), unit)),
            ]
        )  # fmt: skip
    yield (
        "Eight layers of 2048 (50 million parameters each). Buckets: how many, and in brackets how "
        "many the rule gives (1 MiB first, then 25 MiB, closed as soon as they are full). "
        "Gathered: the peak of a forward pass beside the shards, in units of one layer's weights "
        "in bf16; the model says 1, and 2 with one layer gathered ahead."
    )
    yield ""
    yield from table(
        "| forward and backward | over plain | buckets | largest "
        "| gradients and buckets over weights "
        "| gathered at most | gathered afterwards",
        rows,
    )
    calls = found.items("sharded").get("collectives", {})
    yield from table(
        "an all-reduce with oneself | time",
        [
            [format_bytes(int(name.split("_")[2])), format_time(time)]
            for name, time in calls.items()
        ],
    )


def copies(found: Results) -> Iterator[str]:
    """Bandwidths, and a product beside copies."""
    yield from ("## A product beside copies", "")
    yield (
        "Bytes a second of each copy (read and written once counts once), and what it does to a "
        "bf16 product of 8192. `kernel k` copies with k blocks of threads, which hold their "
        "places like those of a communication library; `memcpy` and `add` are the driver's copy "
        "and an elementwise kernel on the device."
    )
    yield ""
    names = [name for name in found.items("copies") if not name.startswith("product beside")]
    rows = []
    for name in names:
        beside = found.items("copies").get(f"product beside {name}", {})
        places = int(name.split()[1]) if name.startswith("kernel") else None
        left = per(places, found.facts.get("multiprocessors"))
        rows.append(
            [
                name, shown(giga, found.number("copies", name, "byte_per_s")),
                shown(tera, beside.get("flop_per_s")), shown(tera, beside.get("beside_flop_per_s")),
                shown(two, beside.get("slower")),
                shown(lambda share: f"{1 / (1 - share):.2f}" if share < 1 else DASH, left),
                {True: "yes", False: "no"}.get(beside.get("covered"), DASH),
            ]
        )  # fmt: skip
    yield from table(
        "| GB/s | product alone, TFLOP/s | beside | slower by "
        "| if each block takes a multiprocessor "
        "| copies ran throughout",
        rows,
    )


def attention(found: Results) -> Iterator[str]:
    """FlashAttention by length."""
    yield from ("## FlashAttention", "")
    yield (
        "TFLOP/s over the operations that a kernel needs: half of the scores where they are "
        "causal, and 3.5 times the forward pass for forward and backward."
    )
    yield ""
    items = found.items("attention")
    kinds = [
        (backend, causal)
        for backend in ("flash", "cudnn")
        for causal in (True, False)
        if any(i["backend"] == backend and i["causal"] == causal for i in items.values())
    ]
    heads = [f"{backend}{', causal' if causal else ''}" for backend, causal in kinds]

    def cell(backend: str, sequence: int, causal: bool) -> str:
        item = items.get(f"{backend} {sequence}{' causal' if causal else ''}", {})
        rates = (item.get("forward_flop_per_s"), item.get("both_flop_per_s"))
        return " / ".join(shown(tera, rate) for rate in rates)

    yield from table(
        " | ".join(["s (forward / with backward)", *heads]),
        [
            [str(sequence), *(cell(backend, sequence, causal) for backend, causal in kinds)]
            for sequence in sorted({item["sequence"] for item in items.values()})
        ],
    )


def links(found: Results) -> Iterator[str]:
    """All-reduce by the library and by hand."""
    items = found.items("links")
    yield from ("## Between GPUs", "")
    if not items:
        yield from ("One GPU was there: a ring takes two.", "")
        return
    sizes = sorted({item["nbytes"] for item in items.values() if "nbytes" in item})
    named = {item["nbytes"]: name.split()[-1] for name, item in items.items() if "nbytes" in item}

    def cell(name: str, nbytes: int) -> str:
        item = items.get(f"{name} {named[nbytes]}", {})
        return (
            f"{shown(format_time, item.get('time_s'))}, {shown(giga, item.get('bus_byte_per_s'))}"
        )

    yield from table(
        "bytes | library: time, bus GB/s | ring by hand",
        [[format_bytes(n), cell("library", n), cell("by hand", n)] for n in sizes],
    )
    yield from table(
        "fitted to 2 (p - 1) (alpha + n / p beta) | alpha | 1 / beta, GB/s",
        [
            [name, format_time(item["alpha_s"]), giga(1 / item["beta_s_per_byte"])]
            for name, item in found.items("links", "fit ").items()
        ],
    )


def tests(found: Results) -> Iterator[str]:
    """The suite's own tests."""
    yield from ("## The kit's tests on this GPU", "")
    suite = found.items("tests").get("suite")
    if suite is None:
        yield from ("Not run.", "")
        return
    yield (
        f"{suite['passed']} passed, {suite['failed']} failed, {suite['errors']} errors, "
        f"{suite['left_out']} skipped" + ("" if suite["ended"] else "; ended by their time limit")
    )
    yield ""


def missing(found: Results) -> Iterator[str]:
    """What wasn't measured, and why."""
    rows = [
        [f"{section}: {name}", (item.get("error") or item["skipped"]).splitlines()[0][:160]]
        for section, record in found.sections.items()
        for name, item in record["items"].items()
        if {"error", "skipped"} & item.keys()
    ]
    rows += [
        [section, str(record["status"])]
        for section, record in found.sections.items()
        if record["status"] != 0
    ]
    if rows:
        yield from ("## Not measured", "")
        yield from table(
            "measurement | why", [[cell.replace("|", "/") for cell in r] for r in rows]
        )
