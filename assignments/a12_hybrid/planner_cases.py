"""Cost models for planner.py, and how its plans are judged: supplied for its tests.

call = [MODELS["7.5B"], "dgx_a100", 8, 80 * 10**9, "plain"]
planner_check(ranks, [call])
"""

import dataclasses

from ringside import Machine
from ringside.checking import Verdict, award, one_line
from ringside.checking.formulas import evaluated
from ringside.scale.hybrid_cost import Config, Model, configs, cost, why_illegal
from ringside.units import format_count

MOST_ASKED = 20_000  # evaluations of the cost model in one plan
GB = 10**9


def sizes(num_layers, hidden, num_heads, batch, vocabulary=51200, sequence=2048):
    """A model as tests write it down."""
    return {
        "num_layers": num_layers,
        "hidden": hidden,
        "num_heads": num_heads,
        "batch": batch,
        "vocabulary": vocabulary,
        "sequence": sequence,
    }


MODELS = {  # of Megatron-LM's table 1, with its batches
    "7.5B": sizes(36, 4096, 32, 512),
    "18B": sizes(40, 6144, 48, 1024),
    "39B": sizes(48, 8192, 64, 1536),
    "76B": sizes(60, 10240, 80, 1792),
    "146B": sizes(80, 12288, 96, 2304),
    "1T": sizes(128, 25600, 160, 3072),
}


def planner_heavy(model, config, machine):
    """A cost model whose messages between stages take ten times as long.

    And a GPU keeps 20 bytes more for each of its parameters.
    """
    kits = cost(model, config, machine)
    parameters = model.num_parameters() / (config.tensor * config.pipeline)
    return dataclasses.replace(
        kits,
        step_s=kits.step_s + 9 * kits.hops_s,
        hops_s=10 * kits.hops_s,
        memory_bytes=kits.memory_bytes + round(20 * parameters),
    )


PLANNER_COSTS = {"plain": cost, "heavy": planner_heavy}


def planner_shown(call):
    """How a sentence names a call, and the line that makes it."""
    model, machine, num_gpus, memory_bytes, name = call
    millions = Model(**model).num_parameters() / 1e6
    size = f"{millions:,.0f}" if millions >= 10 else f"{millions:.2f}"
    where = (
        f"plan for {size} million parameters on {format_count(num_gpus, 'GPU')} of {machine} with "
        f"{memory_bytes / GB:.6g} GB"
    )
    where += "" if name == "plain" else f", with the cost model {name!r}"
    typed = ", ".join(repr(each) for each in call)
    return where, f'python -c "from callers import try_planner; try_planner({typed})"'


def planner_asked(ranks, calls):
    """Per call what ``callers.planner_answer`` gave for it."""
    answers = evaluated(ranks, "callers:planner_answers", "planner:plan", calls, planner_shown)
    yield from zip(calls, answers, strict=True)


def planner_planned(call, answer):
    """``(config, cost)`` of a plan; a verdict where it can't run or doesn't fit."""
    model, machine, num_gpus, memory_bytes, name = call
    fields, error, message, _ = answer
    where, line = planner_shown(call)
    if error:
        said = f"raised {error}: {one_line(message, 150)}"
        raise Verdict(f"{where} {said}; it must return a Config.", reproduce=line)
    if isinstance(fields, str):
        raise Verdict(f"{where} is {fields}; it must be a Config.", reproduce=line)
    config, given = Config(**{**fields, "order": tuple(fields["order"])}), Model(**model)
    wrong = why_illegal(given, config)
    if not wrong and config.num_gpus != num_gpus:
        wrong = f"it uses {config.num_gpus} GPUs"
    if wrong:
        raise Verdict(f"{where} is {config}, which can't run: {wrong}.", reproduce=line)
    costs = PLANNER_COSTS[name](given, config, Machine.load(machine))
    if costs.memory_bytes > memory_bytes:
        said = f"which takes {costs.memory_bytes} bytes of {memory_bytes}"
        raise Verdict(f"{where} is {config}, {said}.", reproduce=line)
    return config, costs


def planner_frugal(call, answer):
    """A verdict where the cost model was asked too often."""
    if answer[3] > MOST_ASKED:
        where, line = planner_shown(call)
        said = f"asked the cost model {answer[3]} times; {MOST_ASKED} are allowed"
        raise Verdict(f"{where} {said}.", reproduce=line)


def planner_all(call):
    """Pairs ``(step_s, memory_bytes)`` of all mixtures that can run."""
    model, machine, num_gpus, _, name = call
    given, on = Model(**model), Machine.load(machine)
    for config in configs(given, num_gpus):
        costs = PLANNER_COSTS[name](given, config, on)
        yield costs.step_s, costs.memory_bytes


def planner_ratio(call, config, costs):
    """How many times as long as the fastest that fits a plan takes, and a sentence about it."""
    best_s = min(step_s for step_s, needed in planner_all(call) if needed <= call[3])
    return costs.step_s / best_s, (
        f"{planner_shown(call)[0]} is {config}, which takes {costs.step_s:.9g} s; the fastest that "
        f"fits takes {best_s:.9g} s"
    )


def planner_plans(ranks, calls):
    """The plans, all of which can run and fit: ``(call, config, cost)``."""
    for call, answer in planner_asked(ranks, calls):
        yield call, *planner_planned(call, answer)


def planner_check(ranks, calls, full=1 + 1e-9, half=None):
    """No plan is slower than ``full`` times the fastest one that fits; half marks to ``half``."""
    worst = 0.0
    for call, answer in planner_asked(ranks, calls):
        config, costs = planner_planned(call, answer)
        planner_frugal(call, answer)
        ratio, said = planner_ratio(call, config, costs)
        line = planner_shown(call)[1]
        if ratio > (half or full):
            raise Verdict(f"{said}.", reproduce=line)
        if ratio > max(full, worst):
            worst, kept, kept_line = ratio, said, line
    if worst > full:
        award(0.5, f"{kept}: {worst:.3f} times. {full} times gets all points.", reproduce=kept_line)


def planner_refusal(call, answer, named):
    """A verdict where a plan that can't fit isn't refused; ``named``: with both values."""
    _, error, message, _ = answer
    where, line = planner_shown(call)
    if error != "ValueError":
        said = f"raised {error}" if error else "returned a Config"
        said += "; nothing fits, so it must raise ValueError"
        raise Verdict(f"{where} {said}.", reproduce=line)
    least = min(needed for _, needed in planner_all(call))
    digits = message.replace(",", "").replace("_", "").replace("'", "")
    for value, what in ((call[3], "what there is"), (least, "what the nearest mixture takes")):
        if named and str(value) not in digits:
            raise Verdict(
                f'{where} raised "{one_line(message, 200)}", without {what}: {value} bytes.',
                reproduce=line,
            )


def planner_refused(ranks, calls, named):
    """Nothing fits: every call raises ValueError."""
    for call, answer in planner_asked(ranks, calls):
        planner_refusal(call, answer, named)
