"""Who hangs, who is slow: reading the flight recorders of all ranks.

    rank 0   tp0 41 completed   dp0 8 completed   tp0 42 started     waits for rank 1
    rank 1   tp0 41 completed   dp1 8 started                        waits for rank 3
    rank 2   tp1 41 completed   dp0 8 completed   tp1 42 started     waits for rank 3
    rank 3   tp1 41 completed                                        never came to dp1 8: it hangs

Here ``tp0`` has the ranks 0 and 1, ``tp1`` 2 and 3, ``dp0`` 0 and 2, ``dp1`` 1 and 3. Three ranks
wait, and rank 1 itself is missing where rank 0 waits. But rank 1 waits, too; rank 3 waits nowhere.

A rank's flight recorder holds its last K collectives, one dict each, such as ``{"group": "tp0",
"seq": 42, "op": "allreduce", "dtype": "float32", "count": 256, "state": "started", "created_ps":
8123000, "started_ps": 8123000, "completed_ps": -1}``:

- ``group`` and ``seq``: which collective of which group it is. Each group counts its own, from 1
  on, and the members of a group meet by this number.
- ``op``, ``dtype``, ``count``: what the rank called, and the elements that it gave. In all ops here
  the members must give equally many.
- ``state``: "completed"; "started": the rank waits for other members; "scheduled": it stands
  behind another collective of its group that isn't complete. A rank waits, and a collective isn't
  complete, where any of its records isn't "completed".
- ``created_ps``, ``started_ps``, ``completed_ps``: times in picoseconds by one clock; -1: not yet.
  A rank calls a collective at ``created_ps``. No answer depends on a tie of times.

When the recorder is full, the oldest record leaves it. So two ranks' records may begin at different
numbers, and of a group that is used seldom a rank may hold no record at all. A collective that
isn't complete is among the last ones: its record is always there.
"""


def diagnose(
    dumps: dict[int, list[dict]], groups: dict[str, tuple[int, ...]]
) -> tuple[str, tuple[int, ...], str, int]:
    """Say what has gone wrong, and where.

    Args:
        dumps: rank -> its records, oldest first; it may be an empty list. A rank that is in a group
            and has left no dump is dead.
        groups: name -> its ranks, in increasing order.

    Returns:
        ``(kind, ranks, group, seq)``, the ranks as a tuple in increasing order. At most one thing
        has gone wrong; the first of these kinds that fits is returned.

        - ``("dead", ranks, "", 0)``: all ranks without a dump.
        - ``("type", ranks, group, seq)``: the members of a collective that isn't complete have
          called different ops. ``"dtype"`` and ``"size"``: they have called the same op with
          different dtypes, or with the same dtype and different counts. There is at most one such
          collective. The ranks are those whose op (or dtype, or count) isn't the most frequent one
          in the records that are there. If no value is more frequent than all others, nobody can
          tell who is right: all members whose records are there.
        - ``("missing", ranks, group, seq)``: some ranks never came to a collective in which others
          wait. The ranks are those of them that wait in no collective themselves: who waits may be
          late because of another one. There is at least one such rank. ``group`` and ``seq`` name
          the collective in which one of these ranks is missed for the longest time, by the least
          ``created_ps`` of its records.
        - ``("slow", (rank,), "", 0)``: all is complete, and in each of its groups that count the
          rank comes last to at least nine in ten collectives: it calls them later than every other
          member. Only collectives of which all members hold a record count, and only groups of two
          or more ranks with at least four of these. At least one of its groups counts.
        - ``("none", (), "", 0)``: nothing of this.

    Example: of the four ranks above rank 3 hangs. Rank 1 misses it in ``dp1`` and rank 2 in
    ``tp1``; if rank 1 has called first, the answer is ``("missing", (3,), "dp1", 8)``.
    """
    ### BEGIN SOLUTION
    members = {rank for ranks in groups.values() for rank in ranks}
    dead = tuple(sorted(members - set(dumps)))
    if dead:
        return "dead", dead, "", 0
    calls = {}  # (group, seq) -> rank -> its record
    for rank, records in dumps.items():
        for record in records:
            calls.setdefault((record["group"], record["seq"]), {})[rank] = record
    stuck = {
        place: came
        for place, came in calls.items()
        if any(record["state"] != "completed" for record in came.values())
    }
    for kind, field in (("type", "op"), ("dtype", "dtype"), ("size", "count")):
        for (group, seq), came in sorted(stuck.items()):
            ranks = _differing({rank: record[field] for rank, record in came.items()})
            if ranks:
                return kind, ranks, group, seq
    waiting = {rank for came in stuck.values() for rank in came}
    roots, missed = set(), []
    for (group, seq), came in stuck.items():
        absent = set(groups[group]) - set(came) - waiting
        if absent:
            roots |= absent
            since = min(record["created_ps"] for record in came.values())
            missed.append((since, group, seq))
    if roots:
        return "missing", tuple(sorted(roots)), *min(missed)[1:]
    for rank in sorted(dumps):
        if not stuck and _comes_last(rank, calls, groups):
            return "slow", (rank,), "", 0
    return "none", (), "", 0


def _differing(values):
    """The ranks whose value isn't that of most; all of them if there is no most frequent one."""
    counts = {}
    for value in values.values():
        counts[value] = counts.get(value, 0) + 1
    if len(counts) < 2:
        return ()
    first, second, *_ = sorted(counts.values(), reverse=True)
    usual = next(value for value in counts if counts[value] == first)
    return tuple(sorted(r for r, value in values.items() if first == second or value != usual))


def _comes_last(rank, calls, groups):
    """Whether a rank comes last to nearly all collectives in each of its groups."""
    shares = []
    for group, ranks in groups.items():
        if rank not in ranks or len(ranks) < 2:
            continue
        whole = [
            came for (name, _), came in calls.items() if name == group and len(came) == len(ranks)
        ]
        late = [
            all(
                came[rank]["created_ps"] > came[other]["created_ps"]
                for other in ranks
                if other != rank
            )
            for came in whole
        ]
        if len(late) >= 4:
            shares.append(sum(late) / len(late))
    return bool(shares) and min(shares) >= 0.9
    ### END SOLUTION
