"""The calls of account.py that the tests make; each carries the number that must come.

A layer is said as ``("Conv", out_channels, kernel, stride, pad, groups, doubled)``, ``("Pool",
kernel, stride, doubled)`` or ``("Linear", out_features, doubled)``. A network is a name of
``given/networks.py``, or its input's shape and then its layers.
"""

from dataclasses import MISSING, dataclass, fields

from checks.inside import made
from ringside.checking.cases import Formula, alike, brief
from ringside.units import format_bytes

MOST_BYTES = 2**20
RATES = ("Machine", 1e12, 1e11, 1e-6)  # FLOP/s, bytes/s of memory, seconds of a kernel's start


@dataclass(frozen=True)
class Count(Formula):
    """A whole number, or several."""

    caller = "checks/inside.py:counted"

    def check_value(self, value):
        number, _ = value
        number = tuple(number) if isinstance(number, list | tuple) else number
        if not whole(number):
            raise self.fail(
                f"it gives {brief(number)}; it must be {brief(self.gives)}, in whole numbers (int)."
            )
        if number != self.gives:
            raise self.fail(
                f"it is {brief(number)}; it must be {brief(self.gives)}.{self.named(number)}"
            )

    def named(self, value):
        """A sentence on the usual mistake that gives this value, "" if there is none."""
        wrong = self.wrong().items()
        return next((f" {says}" for says, other in wrong if alike(value, other)), "")

    def check_peak(self, value):
        """Nothing of the size that is counted was made."""
        _, peak = value
        if peak > MOST_BYTES:
            raise self.fail(
                f"the call had {format_bytes(peak)} of memory in use; 1 MiB is allowed: count, and "
                "make nothing of the size that is counted."
            )

    def __str__(self):
        return f"{self.function}({', '.join(map(shown, self.arguments()))})"


def whole(value):
    return all(map(whole, value)) if isinstance(value, tuple) else type(value) is int


def shown(value):
    """A value as a student would write it."""
    match value:
        case ("Machine", flop_per_s, memory_bytes_per_s, overhead_s):
            return (
                f"Machine('m', 1e-6, 1e-9, flop_per_s={flop_per_s:g}, memory_bytes_per_s="
                f"{memory_bytes_per_s:g}, kernel_overhead_s={overhead_s:g})"
            )
        case (str(kind), *_):
            return f"{kind}({', '.join(words(made(value)))})"
        case (tuple(shape), *layers):
            return f"Network('drawn', {shape}, ({', '.join(map(shown, layers))},))"
        case str() if value.isupper():
            return value
    return brief(value)


def words(layer):
    """What stands in the brackets: fields as they usually are go without saying."""
    for item in fields(layer):
        value = getattr(layer, item.name)
        if item.default is MISSING or value != item.default:
            yield str(value) if item.default is MISSING else f"{item.name}={value}"


@dataclass(frozen=True)
class OutputShape(Count):
    target = "account:output_shape"
    layer: tuple = ("Linear", 10)
    shape: tuple = (4,)

    def wrong(self):
        layer = made(self.layer)
        if not hasattr(layer, "kernel"):
            return {}
        pad, channels = getattr(layer, "pad", 0), self.gives[0]

        def shape(padding, up=0):
            free = [n + padding - layer.kernel + up * (layer.stride - 1) for n in self.shape[1:]]
            return (channels, *(n // layer.stride + 1 for n in free))

        return {
            "Here a window that sticks out counts, too; one that doesn't fit is left out.": shape(
                2 * pad, up=1
            ),
            "Here padding stands on one side only; it stands on both.": shape(pad),
            "Here padding counts for nothing; the image is larger by it on both sides.": shape(0),
        }


@dataclass(frozen=True)
class LayerParameters(OutputShape):
    target = "account:layer_parameters"

    def wrong(self):
        layer = made(self.layer)
        biases = getattr(layer, "out_channels", getattr(layer, "out_features", 0))
        all_channels = biases + (self.gives - biases) * getattr(layer, "groups", 1)
        return {
            "These are the weights; biases are parameters, too.": self.gives - biases,
            "Here an output channel looks at all input channels; it looks at its group's.": (
                all_channels
            ),
        }


@dataclass(frozen=True)
class LayerFlops(OutputShape):
    target = "account:layer_flops"
    batch_size: int = 1

    def wrong(self):
        return {
            "These are the multiplications; the additions count as well.": self.gives // 2,
            "These are those of one sample; the whole batch goes through.": (
                self.gives // self.batch_size
            ),
            "Here an output channel looks at all input channels; it looks at its group's.": (
                self.gives * getattr(made(self.layer), "groups", 1)
            ),
        }


@dataclass(frozen=True)
class NumParameters(Count):
    target = "account:num_parameters"
    network: tuple = ()


@dataclass(frozen=True)
class TrainingFlops(NumParameters):
    target = "account:training_flops"
    batch_size: int = 1


@dataclass(frozen=True)
class ActivationBytes(NumParameters):
    target = "account:activation_bytes"
    batch_size: int = 1
    itemsize: int = 4
    convention: str = "uniform"


@dataclass(frozen=True)
class TrainingBytes(ActivationBytes):
    target = "account:training_bytes"


@dataclass(frozen=True)
class Time(Count):
    """Seconds, to 1e-9."""

    def check_value(self, value):
        time_s, _ = value
        if not alike(time_s, self.gives):
            says = self.named(time_s)
            raise self.fail(f"it is {brief(time_s)} s; it must be {brief(self.gives)} s.{says}")


@dataclass(frozen=True)
class LayerTime(Time):
    target = "account:layer_time_s"
    layer: tuple = ("Linear", 10)
    shape: tuple = (4,)
    batch_size: int = 1
    on: tuple = RATES
    itemsize: int = 4


@dataclass(frozen=True)
class ForwardTime(Time):
    target = "account:forward_time_s"
    network: tuple = ()
    batch_size: int = 1
    on: tuple = RATES
    itemsize: int = 4
