"""Which machine was measured, with which software, and what its maker says of it."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from gpu.bench import Bench, Record

# Dense peaks (FLOP/s) and bandwidth of memory (B/s), as the makers' data sheets state them.
DATA_SHEETS: dict[str, dict[str, Any]] = {
    "NVIDIA H100 80GB HBM3": {
        "fp32": 66.9e12, "tf32": 494.7e12, "bf16": 989.4e12, "fp8": 1978.9e12,
        "memory_byte_per_s": 3.35e12, "pcie_byte_per_s": 64e9,
        "source": "NVIDIA H100 Tensor Core GPU data sheet, SXM; PCIe 5.0 x16, one way",
    },
    "NVIDIA H200": {
        "fp32": 66.9e12, "tf32": 494.7e12, "bf16": 989.4e12, "fp8": 1978.9e12,
        "memory_byte_per_s": 4.8e12, "pcie_byte_per_s": 64e9,
        "source": "NVIDIA H200 Tensor Core GPU data sheet, SXM; PCIe 5.0 x16, one way",
    },
    "NVIDIA A100-SXM4-80GB": {
        "fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12,
        "memory_byte_per_s": 2.039e12, "pcie_byte_per_s": 32e9,
        "source": "NVIDIA A100 data sheet, SXM 80 GB; PCIe 4.0 x16, one way",
    },
    "NVIDIA A100-SXM4-40GB": {
        "fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12,
        "memory_byte_per_s": 1.555e12, "pcie_byte_per_s": 32e9,
        "source": "NVIDIA A100 data sheet, SXM 40 GB; PCIe 4.0 x16, one way",
    },
    "NVIDIA L40S": {
        "fp32": 91.6e12, "tf32": 183e12, "bf16": 362e12, "fp8": 733e12,
        "memory_byte_per_s": 0.864e12, "pcie_byte_per_s": 32e9,
        "source": "NVIDIA L40S data sheet; PCIe 4.0 x16, one way",
    },
}  # fmt: skip
QUESTIONS = (
    *("driver_version", "clocks.sm", "clocks.mem", "clocks.max.sm", "power.limit"),
    *("temperature.gpu", "pcie.link.gen.current", "pcie.link.width.current"),
)


def facts(bench: Bench) -> Record:
    """Of the machine; the data sheet is None where the device isn't known."""
    record: Record = {
        "date": datetime.date.today().isoformat(),
        "device": _processor(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "small": bench.small,
        "data_sheet": None,
    }
    if not bench.is_gpu:
        return record
    properties = torch.cuda.get_device_properties(0)
    record |= {
        "device": properties.name,
        "gpus": torch.cuda.device_count(),
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "cache_bytes": getattr(properties, "L2_cache_size", None),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        "data_sheet": DATA_SHEETS.get(properties.name),
        "nvidia_smi": nvidia_smi(),
    }
    return record


def nvidia_smi() -> dict[str, str]:
    """What the driver says now; nothing is set."""
    command = ["nvidia-smi", f"--query-gpu={','.join(QUESTIONS)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values = (done.stdout.splitlines() or [""])[0].split(", ")
    return dict(zip(QUESTIONS, values, strict=False))


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "a CPU"
