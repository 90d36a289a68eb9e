"""What runs under torch's own gloo in grading: as ``mpi_driver``, with a group and tensors."""

import os
import struct
import sys


def main() -> None:
    """Make all calls, each with a group of its own that has all ranks."""
    sys.path[:0] = [os.environ["RINGSIDE_JOB_KIT"], os.environ["RINGSIDE_JOB_MODULES"]]
    import torch.distributed as dist

    from ringside.network import codec, failure
    from ringside.pytorch import tensors
    from ringside.targets import find

    with open(os.environ["RINGSIDE_JOB_INPUTS"], "rb") as stream:
        calls = codec.decode(stream.read())[int(os.environ["RINGSIDE_JOB_WORLD"])]
    rank = dist.get_rank()
    with open(os.environ["RINGSIDE_JOB_PIPE"], "wb") as results:
        for target, arguments in calls:
            group = dist.new_group()
            try:
                call = find(target)
                value = call(group, *tensors.from_arrays(arguments[rank]))
                frame = codec.encode(("value", tensors.to_arrays(value)))
            except BaseException as error:
                report = failure.encode_caught(error, os.environ["RINGSIDE_JOB_MODULES"])
                frame = codec.encode(("error", report))
            results.write(struct.pack("<I", len(frame)) + frame)
            results.flush()
            if codec.decode(frame)[0] == "error":  # the other ranks may wait for this one
                os._exit(1)


if __name__ == "__main__":
    main()
