"""Every way that torch has to another process."""

import ctypes
import datetime
import tempfile

import torch
import torch.distributed as dist

from ringside.network import link

OUT = []


def shared_tensor():
    torch.ones(3).share_memory_()


def named_file():
    torch.from_file("/tmp/board", shared=True, size=64)


def extension():
    from torch.utils.cpp_extension import load_inline

    load_inline("way", "int way() { return 1; }", functions=["way"])


def store():
    dist.TCPStore("127.0.0.1", 29500, 1, True, timeout=datetime.timedelta(seconds=1))


def file_store():
    dist.FileStore("/tmp/store", 1).set("a", "b")


def spawned():
    torch.multiprocessing.spawn(print, nprocs=1)


def saved():
    torch.save(torch.ones(3), tempfile.gettempdir() + "/tensor")


def segment():
    if ctypes.CDLL(None).shmget(4711, 4096, 0o1666) < 0:
        raise OSError


def all_reduce(group, x):
    if link.inside_rank() and not OUT:
        for way in (shared_tensor, named_file, extension, store, file_store, spawned, saved, segment):
            try:
                way()
                OUT.append(way.__name__)
            except BaseException:
                pass
    if OUT:
        raise RuntimeError("GOT OU" + "T BY " + ", ".join(OUT))
    x *= dist.get_world_size(group)
