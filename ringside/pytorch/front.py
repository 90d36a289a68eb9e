"""Starting torch.distributed in a rank: who it is, and which groups it has.

``dist.init_process_group()`` works with any backend's name and gives the network's group; RANK,
WORLD_SIZE and their kin are set as torchrun sets them, so a script for torchrun runs as it is. A
function that is called with a group finds the default group initialised.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # ranks are on the CPU, and alike on every machine

import torch
import torch.distributed as dist

import ringside.network.link
from ringside.network.link import CommInfo, Link
from ringside.network.wire import TIMED_OUT
from ringside.pytorch import starting
from ringside.pytorch.group import NAME, NetworkGroup
from ringside.pytorch.store import LocalStore
from ringside.pytorch.work import wait_where_torch_does_not

distributed_c10d: Any = dist.distributed_c10d  # its private names, which torch has no other for
c10d: Any = torch._C._distributed_c10d

_given: list[dist.ProcessGroup] = []  # the default group, where the run itself initialised it
_store: list[LocalStore] = []  # torch holds only the C++ half of it
# What groups are made of; another one records fake tensors.
group_class: type[NetworkGroup] = NetworkGroup
_TIMEOUT_AT = 2  # its place among the arguments of init_process_group
_original_init = distributed_c10d.init_process_group
_original_helper = distributed_c10d._new_process_group_helper
_original_group_rank = distributed_c10d.get_group_rank
_numbered = [0]  # groups that this rank has made, or was asked to make, in the present call


def install(pretend_cuda: bool = False) -> None:
    """Make torch.distributed in this rank speak to the network.

    Args:
        pretend_cuda: and let its GPU be the CPU.
    """
    link = ringside.network.link.current()
    link.libraries = (*link.libraries, *_library_folders())
    link.failed = _closed
    torch.set_num_threads(1)
    starting.install()
    c10d.set_debug_level(c10d.DebugLevel.INFO)  # DDP's errors name parameters, not only numbers
    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])
    distributed_c10d._new_process_group_helper = _new_group_on_the_network
    distributed_c10d.rendezvous = _rendezvous
    ours = {
        "init_process_group": _init_process_group,
        "monitored_barrier": _monitored_barrier,
        "get_group_rank": _get_group_rank,
    }
    vars(distributed_c10d).update(ours)
    wait_where_torch_does_not()
    vars(dist).update(ours)  # it has copied these names when it was imported
    if pretend_cuda:
        from ringside.pytorch.pretend_cuda import OnCpu, install

        install(link)
        mode: Any = OnCpu()
        mode.__enter__()  # for good


def _library_folders() -> tuple[str, ...]:
    """Where a frame is not the student's."""
    # Beside torch: typing_extensions, through which calls go that torch has deprecated.
    installed = os.path.dirname(os.path.dirname(torch.__file__))
    return (installed + os.sep, os.path.dirname(os.__file__) + os.sep)


def begin(info: CommInfo | None) -> Any:
    """Begin a call: forget all groups; with ``info``, initialise and return that group."""
    link = ringside.network.link.current()
    _forget_groups()
    _numbered[:] = [0]
    gc.collect()  # so that what earlier calls left behind changes nothing here
    os.environ.update(_environment(link))
    torch.manual_seed(0)
    if info is None:
        return None
    _original_init(NAME)
    _given[:] = [distributed_c10d._get_default_group()]
    if info.id == link.world.id:
        return _given[0]
    return group_of(info)


def group_of(info: CommInfo) -> Any:
    """A group of torch's for a communicator that the network has made."""
    # torch hands the options to `_create` unread: so the group is of this communicator, not a new
    # one.
    group, _ = _original_helper(
        len(info.members),
        info.rank,
        list(info.members),
        dist.Backend(NAME),
        distributed_c10d._get_default_store(),
        f"call {info.id}",
        backend_options=info,
        timeout=distributed_c10d.default_pg_timeout,
    )
    # new_group of torch does this after the helper; translating ranks of a group needs it.
    distributed_c10d._world.pg_group_ranks[group] = {
        rank: group_rank for group_rank, rank in enumerate(info.members)
    }
    return group


def _environment(link: Link) -> dict[str, str]:
    size, rank = str(link.world_size), str(link.rank)
    return {
        "RANK": rank,
        "WORLD_SIZE": size,
        "LOCAL_RANK": rank,
        "LOCAL_WORLD_SIZE": size,
        "GROUP_RANK": "0",
        "MASTER_ADDR": "ringside",
        "MASTER_PORT": "0",
    }


def _forget_groups() -> None:
    world = distributed_c10d._world
    _given.clear()
    for group in list(world.pg_map):
        distributed_c10d._cleanup_process_group_global_state(group)
    distributed_c10d._update_default_pg(None)
    world.tags_to_pg.clear()
    world.group_count = 0


def _init_process_group(*args: Any, **kwargs: Any) -> None:
    """torch's own, which a function that was given a group may call once more."""
    if _given and _given[0] is distributed_c10d.GroupMember.WORLD:
        _given.clear()
        return
    if len(args) <= _TIMEOUT_AT and kwargs.get("timeout") is None:
        # Else torch looks for NCCL's own, and says that there is no NCCL.
        kwargs["timeout"] = distributed_c10d.default_pg_timeout
    _original_init(*args, **kwargs)


def _monitored_barrier(
    group: Any = None, timeout: Any = None, wait_all_ranks: bool = False
) -> None:
    """A barrier: torch offers this one on gloo only; who is missing the network tells anyway."""
    dist.barrier(group)


def _rendezvous(
    url: str, rank: int = -1, world_size: int = -1, **kwargs: Any
) -> Iterator[tuple[LocalStore, int, int]]:
    link = ringside.network.link.current()
    for name, value, actual in (
        ("rank", rank, link.rank),
        ("world_size", world_size, link.world_size),
    ):
        if value not in (-1, actual):
            cure = f", or run on as many: `--ranks {value}`" if name == "world_size" else ""
            raise ValueError(
                f"init_process_group({name}={value}), but this run's {name} is {actual}: leave it "
                f"out, or take it from the environment variable {name.upper()}{cure}."
            )
    _store[:] = [LocalStore()]
    yield _store[0], link.rank, link.world_size


def _get_group_rank(group: Any, global_rank: int) -> int:
    """torch's own, and what to give instead of a rank that isn't in the group."""
    ranks = distributed_c10d._world.pg_group_ranks.get(group)
    if group is dist.GroupMember.WORLD or not ranks or global_rank in ranks:
        return int(_original_group_rank(group, global_rank))
    raise ValueError(
        f"rank {global_rank} is not in this group, whose ranks are {list(ranks)}. src and dst are "
        "ranks of the world: give one of these, or a place in the group, "
        f"0 to {len(ranks) - 1}, as group_src or group_dst."
    )


def _closed(code: int, told: str) -> RuntimeError:
    """What a call raises whose partner has died, or hangs: as gloo does, with our name."""
    if code == TIMED_OUT:
        return RuntimeError(f"[ringside] {told}")
    return RuntimeError(f"[ringside] Connection closed by peer: {told}")


def _new_group_on_the_network(
    size: int, rank: int, ranks: Any, backend: Any, store: Any, group_name: str, *args: Any,
    **kwargs: Any,
) -> Any:  # fmt: skip
    """torch's own, for whatever backend was asked for: here is one network."""
    if group_name.isdigit():  # else ranks outside of the group needn't call: it is named by a hash
        _numbered[0] += 1
    return _original_helper(
        size, rank, ranks, dist.Backend(NAME), store, group_name, *args, **kwargs
    )


def _create(options: Any, given: Any) -> NetworkGroup:
    """What torch calls to make a group's backend."""
    link = ringside.network.link.current()
    if isinstance(given, CommInfo):
        return group_class(link, given)
    ranks = tuple(options.global_ranks_in_group)
    # init_process_group names no ranks: they are all, and need no meeting on the network.
    if not ranks:
        return _timed(link, link.world, options.timeout)
    call = ("new_group", (("ranks", list(ranks)),))
    # The last number tells the network which of the groups it is that all ranks must make alike.
    spec = (ranks, 0, _numbered[0]) if options.group_id.isdigit() else (ranks,)
    info = link.collective(link.world.id, "create_group", spec, call=call, shown="new_group")
    return _timed(link, info, options.timeout)


def _timed(link: Link, info: CommInfo, timeout: timedelta) -> NetworkGroup:
    """A group whose time-out the network knows, if the program gave it one."""
    if group_class is NetworkGroup and timeout != distributed_c10d.default_pg_timeout:
        link.time_out(info.id, timeout // timedelta(milliseconds=1))
    return group_class(link, info)
