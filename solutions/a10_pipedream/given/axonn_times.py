"""How long a step takes by a fixed order, and by arrival: supplied, nothing to write.

    forward_s, backward_s    shape (S, M): of each stage's pass of each microbatch

Both functions give the makespan in seconds; a message takes ``message_s``.
"""

import heapq

import numpy as np


def one_f_one_b(forward_s, backward_s, message_s=0.0):
    """1F1B with a flush: stage s makes min(S - s - 1, M) passes F, then F and B in turn.

    >>> one_f_one_b(np.ones((2, 3)), np.ones((2, 3)))
    8.0
    """
    num_stages, count = np.shape(forward_s)
    lists = []
    for stage in range(num_stages):
        ahead = min(num_stages - stage - 1, count)
        order = [("F", m) for m in range(ahead)]
        for m in range(count):
            order += ([("F", m + ahead)] if m + ahead < count else []) + [("B", m)]
        lists.append(order[::-1])
    ends, clocks = {}, [0.0] * num_stages
    while any(lists):
        for stage, left in enumerate(lists):
            while left:
                kind, m = left[-1]
                maker = stage - 1 if kind == "F" else stage + 1
                outside = 0 <= maker < num_stages
                if outside and (kind, maker, m) not in ends:
                    break
                came = ends[kind, maker, m] + message_s if outside else 0.0
                seconds = (forward_s if kind == "F" else backward_s)[stage][m]
                clocks[stage] = max(clocks[stage], came) + float(seconds)
                ends[kind, stage, m] = clocks[stage]
                left.pop()
    return max(clocks)


def message_driven(forward_s, backward_s, limit, message_s=0.0):
    """The rule of ``axonn.py``: a backward pass if one is possible, else a forward pass.

    >>> message_driven(np.ones((2, 3)), np.ones((2, 3)), limit=4)
    8.0
    """
    num_stages, count = np.shape(forward_s)
    there = [{"F": [], "B": []} for _ in range(num_stages)]
    there[0]["F"] = list(range(count))
    busy, in_flight, now = [False] * num_stages, 0, 0.0
    events = [(0.0, 0, "come", 0, "F", None)]
    number = 0

    def later(time_s, *what):
        nonlocal number
        number += 1
        heapq.heappush(events, (time_s, number, *what))

    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, _, event, stage, kind, m = heapq.heappop(events)
            if event == "come" and m is not None:
                there[stage][kind].append(m)
            elif event == "end":
                busy[stage] = False
                to = stage + 1 if kind == "F" else stage - 1
                if to == num_stages:
                    there[stage]["B"].append(m)
                elif to >= 0:
                    later(now + message_s, "come", to, kind, m)
        for stage in range(num_stages):
            may = there[stage]["F"] and (stage > 0 or in_flight < limit)
            kind = "B" if there[stage]["B"] else "F" if may else None
            if busy[stage] or kind is None:
                continue
            m = there[stage][kind].pop(0)
            busy[stage] = True
            in_flight += (stage == 0) * (1 if kind == "F" else -1)
            seconds = (forward_s if kind == "F" else backward_s)[stage][m]
            later(now + float(seconds), "end", stage, kind, m)
    return now
