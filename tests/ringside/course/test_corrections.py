"""lectures/corrections.md and systems.md: their numbers follow, and their sources are listed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ringside import Machine
from ringside.course.lectures import table

LECTURES = Path(__file__).resolve().parents[3] / "lectures"
DATA = LECTURES / "data"
CORRECTIONS, SYSTEMS = LECTURES / "corrections.md", LECTURES / "systems.md"


def line(page: Path, *words: str) -> str:
    """The only line of the page that has all these words."""
    lines = page.read_text(encoding="utf-8").splitlines()
    (one,) = [line for line in lines if all(word in line for word in words)]
    return one


def columns(name: str) -> dict[str, dict[str, float]]:
    """The rows of a table of systems, by system."""
    data = table(DATA / name)
    names = data["system"].tolist()
    return {key: dict(zip(names, data[key].tolist(), strict=True)) for key in data}


@pytest.mark.parametrize("page", [CORRECTIONS, SYSTEMS], ids=lambda page: page.name)
def test_every_source_is_listed_and_every_listed_source_is_cited(page: Path) -> None:
    text, _, references = page.read_text(encoding="utf-8").partition("## References")
    listed = re.findall(r"(?m)^(\d+)\. ", references)
    assert listed == [str(number) for number in range(1, len(listed) + 1)]
    assert set(re.findall(r"\[(\d+)\](?!\()", text)) == set(listed)


def test_sizes_of_systems_are_those_of_the_tables() -> None:
    systems, slide = columns("frameworks.csv"), columns("slide_frameworks.csv")
    vgg16 = table(DATA / "vgg16_parameters.csv")["num_parameters"].sum()
    row = line(CORRECTIONS, "| PipeDream:")
    assert f"{slide['parameters']['PipeDream'] / 1e6:.0f} million" in row and "VGG-16" in row
    assert round(vgg16 / 1e6) == 138
    assert f"{systems['parameters']['PipeDream'] / 1e6:.0f} million by its" in row
    row = line(CORRECTIONS, "| GPipe:")
    assert f"{slide['parameters']['GPipe'] / 1e6:.0f} million parameters on 8 GPUs" in row
    assert f"{systems['parameters']['GPipe'] / 1e9:.0f} billion" in row
    assert f"fitted {systems['parameters']['GPipe (largest)'] / 1e9:g} billion on 128" in row
    row = line(CORRECTIONS, "| FlexFlow:")
    gpus, parameters = slide["accelerators"], slide["parameters"]
    assert f"{parameters['FlexFlow'] / 1e6:.0f} million" in row
    assert f"DDP: {gpus['DDP']:.0f} GPUs" in row
    assert f"KARMA: {gpus['KARMA']:.0f} GPUs, {parameters['KARMA'] / 1e9:.0f} billion" in row
    assert f"LBANN: {gpus['LBANN']:.0f} CPUs, {parameters['LBANN'] / 1e9:g} billion" in row


def test_alexnet_is_counted_by_both_rules() -> None:
    images, side = 128, (227 - 11) // 4 + 1
    assert (224 - 11) % 4 != 0 and f"{side}\\times {side}" in line(CORRECTIONS, "224\\times 224")
    early = 96 * 55**2 + 96 * 27**2 + 256 * 27**2 + 256 * 13**2  # with their poolings
    late = 2 * 384 * 13**2 + 256 * 13**2 + 256 * 6**2 + 2 * 4096 + 1000
    once, twice = (3 * 227**2 + times * early + late for times in (1, 2))
    row = line(CORRECTIONS, "AlexNet's activations")
    assert f"{4 * images * twice / 1e6:.0f} MB for 128 images" in row
    assert f"once are {4 * images * once / 1e6:.0f} MB" in row
    assert f"{4 * 9 - 4 * 4} of the {4 * 9} entries" in line(CORRECTIONS, "Toeplitz")
    assert round(2219 * 1_200_000 / 60_000, -3) == 44_000  # an image, times the images
    assert "2219" in line(CORRECTIONS, "44,000 times")


def test_costs_of_all_reduces_are_those_of_the_formulas() -> None:
    machine = Machine.load("textbook")
    alpha, beta, p, n = machine.alpha_s * 1e6, machine.beta_s_per_byte * 1e6, 4, 2000
    row = line(CORRECTIONS, "A parameter server takes")
    in_a_row, at_once = 2 * (p - 1) * (alpha + n * beta), 2 * (alpha + (p - 1) * n * beta)
    assert f"{alpha + p * n * beta:.0f} µs, the two programs take" in row
    assert f"take {in_a_row:.0f} and {at_once:.0f}." in row
    nbytes = 100e3
    transfer = [2 * (p - 1) / p * nbytes * beta for p in (4, 4096)]
    whole = [2 * (p - 1) * alpha + time for p, time in zip((4, 4096), transfer, strict=True)]
    row = line(CORRECTIONS, "A ring's time")
    assert f"take {transfer[1] / transfer[0]:.2f} times as long" in row
    assert f"all-reduce {whole[1] / whole[0]:.0f} times" in row
    layers = sorted(table(DATA / "vgg16_parameters.csv")["num_parameters"].tolist(), reverse=True)
    servers = [0.0] * 4
    for layer in layers:
        servers[servers.index(min(servers))] += layer
    assert f"has {max(servers) / sum(servers) * 4:.1f} times" in line(CORRECTIONS, "key $i$")


def test_a_bandwidth_of_deepep_is_that_of_its_table() -> None:
    measured = table(DATA / "deepep_low_latency.csv")["there_gb_per_s"][0]
    assert f"| {measured:g} GB/s through a port" in line(CORRECTIONS, "a port of 50 GB/s")


def test_crossovers_and_halos_are_those_of_the_formulas() -> None:
    width = 4096
    words = [f"{samples:.0f}" for samples in (width / 3, 2 * width / 3, width)]
    assert "{}, {} and {} samples".format(*words) in line(CORRECTIONS, "$B < d/3$")
    rows, sent = 3 / 2, 2 * (3 // 2)  # the slides' halo, once; what an inner rank sends
    assert f"{1 - rows / sent:.0%}".replace("%", " %") in line(CORRECTIONS, "one halo")


def vgg16_flops() -> float:
    """Of a training step with one image: forward, and both gradients but that of the image."""
    sides = [224, 224, 112, 112, 56, 56, 56, 28, 28, 28, 14, 14, 14]
    channels = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    pairs = zip(channels, channels[1:], sides, strict=False)
    return training([9 * a * b * side**2 for a, b, side in pairs], 512 * 7 * 7)


def small_alexnet_flops(saved: float = 0.0) -> float:
    """The same for the smaller AlexNet; ``saved`` is the share of the 3 x 3 layers left out."""
    first, second = 3 * 64 * 11**2 * 55**2, 64 * 192 * 5**2 * 27**2
    small = [(192, 384), (384, 384), (384, 256)]
    later = [(1 - saved) * 9 * a * b * 13**2 for a, b in small]
    return training([first, second, *later], 256 * 6 * 6)


def training(convolutions: list[float], width: int) -> float:
    linear = [width * 4096, 4096 * 4096, 4096 * 1000]
    layers = [2 * products for products in (*convolutions, *linear)]
    return 3 * sum(layers) - layers[0]


def test_a_p100_did_more_than_its_peak() -> None:
    peak, text = 10.6e12, SYSTEMS.read_text(encoding="utf-8")
    shares = [154 * vgg16_flops() / peak, 2987 * small_alexnet_flops() / peak]
    assert f"takes {vgg16_flops() / 1e9:.1f} GFLOP" in text
    assert "{:.0f} % and {:.0f} % of what".format(*(100 * share for share in shares)) in text
    direct = peak / vgg16_flops()
    assert f"at most {direct:.0f} images a second" in text
    assert f"everywhere {direct * 36 / 16:.0f}" in text
    left = 2987 * small_alexnet_flops(1 - 16 / 36) / peak
    assert f"still leave {100 * left:.0f} %" in text


def test_states_and_rates_of_sharded_systems_follow() -> None:
    row = line(SYSTEMS, "**ZeRO-Infinity** says")
    assert f"{16 * 32} TB of states are {round(16 * 32e12 / 512 / 1e12)} TB" in row
    assert f"it is {16e12 / 512 / 1e9:.0f} GB" in row
    assert f"at {25e15 / 512 / 1e12:.0f} TFLOP/s" in row
    assert f"{15e15 / 400 / 1e12:.0f} on each" in row
    step_s = 8 * 2048 * 175e9 / 173e12
    assert 16 < step_s < 17 and "less than 17 s" in line(SYSTEMS, "**FSDP.**")
    assert f"{5605 / 5762:.1%}".replace("%", " %") in line(SYSTEMS, "**FSDP2 in")
    assert f"{16 * 5e9 / 1e9:.0f} GB of states" in line(SYSTEMS, "| Mesh-TensorFlow")
    assert f"{16 * 100e9 / 384 / 1e9:.1f} GB of states" in line(SYSTEMS, "| AxoNN")
    runs = table(DATA / "zero3_ptd_2021.csv")
    chosen = (runs["scheme"] == "ZeRO-3") & (runs["gpus"] > 384) & (runs["gpus"] <= 1536)
    days = set(runs["days"][chosen & (runs["parameters_billion"] == 174.6)].tolist())
    assert days == {74} and "74 days on 768 and on 1536" in line(SYSTEMS, "| ZeRO-3 of 2021")


def test_a_table_pays_on_a_gpu_after_some_passes() -> None:
    text = SYSTEMS.read_text(encoding="utf-8")
    channels, pcie, a100 = 8 * 3.2 * 8, 16 * 16 / 8 * 128 / 130, 2039.0  # GB/s
    assert f"reads {channels:.1f} GB/s from 8 channels" in text
    assert f"PCIe 4.0, at {pcie:.1f} GB/s" in text
    assert f"more than {(1 / pcie) / (1 / channels - 1 / a100):.1f} times" in text
    assert round(a100 / channels) == 10
