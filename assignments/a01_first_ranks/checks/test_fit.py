"""fit.py: two numbers out of many measurements."""

from checks.cases import Fit, Residuals, TwoRegimes
from ringside.checking.suite import Suite, group

suite = Suite("fit")
SIZES = (8, 64, 512, 4096, 32768, 262144, 2097152)
MEASURED_S = (0.9e-6, 1.2e-6, 1.5e-6, 5.5e-6, 3.1e-5, 2.8e-4, 1.9e-3)
FITTED = (9.90519899568e-07, 9.76360659879e-10)
CLOUD_US = {1024: 20.87, 2048: 39.07, 8192: 39.87, 32768: 44.72, 65536: 96.54, 262144: 124.30}
STEPPED = (64, 8, 512, 32768, 4096, 262144)


def times(sizes, alpha_s, beta):
    """Exact ones, to six digits: a line that shows a failure has room for so many."""
    return tuple(float(f"{alpha_s + n * beta:.6g}") for n in sizes)


def of_steps(sizes, form="list"):
    times_s = tuple(float(f"{(1e-6 if n < 4096 else 5e-6) + 1e-9 * n:.6g}") for n in sizes)
    return TwoRegimes(tuple(sizes), times_s, form, gives=(4096, (1e-6, 1e-9), (5e-6, 1e-9)))


@suite.test(
    "line", "values",
    Fit(SIZES, times(SIZES, 1e-6, 1e-9), gives=(1.00000003747e-06, 9.99999737466e-10)),
    Fit(SIZES, times(SIZES, 3e-5, 2e-10), gives=(3.00000012868e-05, 1.99999869946e-10)),
    Fit((0, 1000), (1e-6, 2e-6), gives=(1e-6, 1e-9)),
)  # fmt: skip
def test_exact_times(case, run):
    """The two numbers that made them."""


@suite.test(
    "relative", "values", Fit(SIZES, MEASURED_S, gives=FITTED),
    Fit((8, 800, 80000), (1e-6, 2e-6, 9e-5), gives=(1.01130824749e-06, 1.13298542947e-09)),
)  # fmt: skip
def test_noise_counts_alike_at_all_sizes(case, run):
    """Residuals are fractions of the measured times."""


@suite.test(
    "uncut", "values",
    Fit(
        tuple(CLOUD_US), tuple(round(1e-6 * us, 9) for us in CLOUD_US.values()),
        gives=(2.75662455121e-05, 4.49754166544e-10),
    ),
    # beta is negative, then alpha
    Fit((1, 10, 100), (3e-6, 2e-6, 1e-6), gives=(2.42952266346e-06, -1.4360208584e-08)),
    Fit((1000, 2000, 4000), (1e-6, 3e-6, 9e-6), gives=(-1.3734939759e-06, 2.34939759036e-09)),
)  # fmt: skip
def test_measured_times_of_a_cloud(case, run):
    """Nothing is cut off."""


@suite.test(
    "any_order", "values",
    Fit(
        (512, 8, 64, 8), (1.5e-6, 0.9e-6, 1.2e-6, 1.1e-6),
        gives=(1.00995328059e-06, 9.99865861041e-10),
    ),
    Fit(
        (512, 0, 8, 8), (1.5e-6, 0.7e-6, 0.9e-6, 1.1e-6),
        gives=(8.34424930005e-07, 1.31908751058e-09),
    ),
    Fit(SIZES[::-1], MEASURED_S[::-1], gives=FITTED),
    *(Fit(SIZES, MEASURED_S, form, gives=FITTED) for form in ("array", "int32")),
)  # fmt: skip
def test_any_order_repeated_sizes_and_arrays(case, run):
    """A size that comes several times counts so many times."""


@suite.test(
    "residuals", "values", Residuals((0, 1000, 9000), (2e-6, 2e-6, 8e-6), gives=[0.5, 0.0, -0.25]),
    Residuals((9000, 0), (8e-6, 2e-6), "array", 2e-6, 5e-10, gives=[0.1875, 0.0]),
)  # fmt: skip
def test_residuals(case, run):
    """Fractions of the measured times, positive where a message was slower than the model says."""


IN_ORDER, IN_ANY = "sizes in order", "sizes in any order"


@suite.test(
    "regimes", "values", group(IN_ORDER, of_steps(sorted(STEPPED))),
    group(IN_ANY, of_steps(STEPPED)), weight=9,
)  # fmt: skip
def test_two_regimes(case, run):
    """The threshold, and both lines."""


@suite.test(
    "regimes", "values",
    group(
        IN_ORDER,
        TwoRegimes((1, 2, 3, 4), (1e-6, 2e-6, 9e-6, 9.5e-6), gives=(3, (0, 1e-6), (7.5e-6, 5e-7))),
        # By squares of seconds the threshold would be 512.
        TwoRegimes(
            (1, 8, 64, 512, 4096, 32768), (1.2e-6, 9.9e-7, 3.4e-6, 3.5e-6, 7.2e-6, 4e-5),
            gives=(64, (1.23e-06, -3e-08), (3.11288878893e-06, 1.07838096316e-09)),
        ),
    ),
    group(
        IN_ANY,
        TwoRegimes(
            (4, 1, 3, 2, 3), (9.5e-6, 1e-6, 9e-6, 2e-6, 8.5e-6), "array",
            gives=(3, (0.0, 1e-06), (6.44290375204e-06, 7.6427406199e-07)),
        ),
    ), weight=11,
)  # fmt: skip
def test_two_regimes_at_the_ends_and_of_a_cloud(case, run):
    """Two sizes may be left on a side."""


@suite.test(
    "refused", "safety", Fit((8, 800), (1e-6, 2e-6), gives=(9.89898989899e-07, 1.26262626263e-09)),
    Fit((8, 8), (1e-6, 2e-6), raises="ValueError"),
    TwoRegimes((1, 2, 3, 3), (1e-6,) * 4, raises="ValueError"),
)  # fmt: skip
def test_too_few_sizes_are_refused(case, run):
    """With a ValueError."""


@suite.test(
    "inputs", "safety",
    group(
        "fit", *(Fit(SIZES, MEASURED_S, form, gives=FITTED) for form in ("list", "float64")),
        weight=4,
    ),
    group("residuals", Residuals((0, 1000), (2e-6, 2e-6), "float64", gives=[0.5, 0.0])),
    group("two_regimes", of_steps(STEPPED, "float64")),
)  # fmt: skip
def test_inputs_stay_as_they_were(case, run):
    """Lists, and arrays of floats."""
