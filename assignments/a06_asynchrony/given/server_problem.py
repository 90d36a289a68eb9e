"""A training problem for the parameter server, and what must come out of it.

Worker w (rank w + 1) computes in step k, from the weights,

    gradient = 1.5 tanh(weights) - target[w][k]        update: weights - 0.3 g / (1 + |g|)

which takes it ``durations_s[w][k]`` of virtual time. The update isn't linear, so that the mean of
two gradients and one after the other give different weights.

``trained`` computes the same in one process: the pushes in the order of their times, no messages.
"""

import contextlib
import heapq

import numpy as np

import ringside


class Problem:
    """What all ranks know.

    Args:
        n: how many weights.
        steps: per worker, how many steps it makes.
        paces: per worker, what a step takes on average, in ms; a step takes 25 % more or less.
        seed: of everything that is drawn.
        fixed: let the gradients not depend on the weights, and the update be ``weights - 0.3 g``,
            so that the order of pushes doesn't matter.
    """

    def __init__(self, n, steps, paces, seed, fixed=False):
        rng = np.random.default_rng(seed)
        self.n, self.steps, self.fixed = n, list(steps), fixed
        self.weights = rng.standard_normal(n)
        self.targets = [2 * rng.standard_normal((count, n)) for count in self.steps]
        self.durations_s = [
            pace * 1e-3 * rng.uniform(0.75, 1.25, size=count)
            for pace, count in zip(paces, self.steps, strict=True)
        ]

    def gradient(self, worker):
        """The function that worker ``worker`` is given."""

        def gradient(weights, step):
            scaled = ringside.announce("gradient", weights, step)
            seconds = float(self.durations_s[worker][step])
            ringside.compute(seconds=seconds, phase="gradient")
            target = self.targets[worker][step]
            return target.copy() if self.fixed else 1.5 * np.tanh(scaled) - target

        return gradient

    def update(self, weights, gradient):
        """The function that the server is given."""
        return weights - 0.3 * (gradient if self.fixed else gradient / (1 + abs(gradient)))


class Trained:
    """What training gives: ``trained`` fills it in.

    Attributes:
        weights: at the end.
        answers: per worker and step ``(version, weights)``, as the server answers its pull.
        lags: of all gradients, in the order in which they were applied.
        end_s: when the last worker ends, and ``gap_s``: the shortest time between two pushes.
    """

    def __init__(self, problem):
        self.weights = problem.weights.copy()
        self.answers = [[] for _ in problem.steps]
        self.lags = []
        self.end_s, self.gap_s = 0.0, np.inf

    @property
    def versions(self):
        """Per worker, the versions that its gradients were computed on."""
        return [[version for version, _ in answers] for answers in self.answers]


def mean(gradients):
    """What a round's gradients are applied as."""
    return sum(gradients) / len(gradients)


def trained(problem, staleness, machine, factors=None, late=0, combined=mean):
    """The training of ``problem`` in one process, in the order of virtual times.

    Args:
        machine: what a step's three messages take is added to its time.
        factors: of the announced passes, in a test of order.
        late: how many ms after its last step a worker's END comes.
        combined: of gradients that are applied together, what is applied.
    """
    message_s = machine.alpha_s + 8 * (problem.n + 1) * machine.beta_s_per_byte
    done, version, last_s = Trained(problem), 0, -np.inf
    clocks = {worker: 0 for worker, count in enumerate(problem.steps) if count or late}
    pulled = [worker for worker, count in enumerate(problem.steps) if count]
    coming = [(late * 1e-3, w, None, None) for w in clocks if w not in pulled]
    together = []  # versions and gradients that are applied as one
    heapq.heapify(coming)  # pushes, and ENDs that come late: time, worker, version, gradient

    def start_all(now_s):
        for worker in list(pulled):
            step = clocks[worker]
            if staleness is not None and step > min(clocks.values()) + staleness:
                continue
            pulled.remove(worker)
            done.answers[worker].append((version, done.weights))
            with contextlib.nullcontext() if factors is None else factors.of_rank(worker + 1):
                gradient = problem.gradient(worker)(done.weights, step)
            pushed_s = now_s + problem.durations_s[worker][step] + 3 * message_s
            heapq.heappush(coming, (pushed_s, worker, version, gradient))

    start_all(0.0)
    while coming:
        now_s, worker, computed_on, gradient = heapq.heappop(coming)
        done.gap_s, last_s, done.end_s = min(done.gap_s, now_s - last_s), now_s, now_s
        if gradient is not None:
            clocks[worker] += 1
            together.append((computed_on, gradient))
        if gradient is not None and clocks[worker] < problem.steps[worker]:
            pulled.append(worker)
        elif gradient is not None and late:
            heapq.heappush(coming, (now_s + late * 1e-3, worker, None, None))
        else:
            del clocks[worker]
        if together and (staleness != 0 or min(clocks.values(), default=np.inf) > version):
            done.lags += [version - each for each, _ in together]
            applied = combined([each for _, each in together])
            done.weights, version = problem.update(done.weights, applied), version + 1
            together = []
        start_all(now_s)
    return done


def seed_apart(rng, n, steps, paces, staleness, machine, late=0):
    """A seed with which no two pushes come so close together that messages decide their order."""
    for _ in range(2000):
        seed = int(rng.integers(2**31))
        if trained(Problem(n, steps, paces, seed), staleness, machine, late=late).gap_s >= 60e-6:
            return seed
    raise ValueError("the pushes of these steps lie too close together: make the paces longer.")
