"""Training steps of a small GPT, replayed: made by "python benchmarks/gpt_steps.py"."""

MACHINE = "zaratan,gpus_per_nic=1,beta_s_per_byte=3.2e-10,memory_bytes_per_s=4.8e12"
# layers, hidden, heads, sequence, vocabulary, batch, microbatch size, data, tensor, pipeline
TIMES = [  # FLOP/s of a GPU, seconds of a step
    (8, 2048, 16, 1024, 51200, 16, 2, 1, 1, 1, 1.8877e13, 2.81338),
    (8, 2048, 16, 1024, 51200, 16, 2, 2, 1, 1, 1.8877e13, 1.43318),
    (8, 2048, 16, 1024, 51200, 16, 2, 1, 4, 1, 1.8877e13, 0.799557),
    (8, 2048, 16, 1024, 51200, 16, 2, 1, 1, 4, 1.8877e13, 1.32836),
    (8, 2048, 16, 1024, 51200, 32, 2, 2, 2, 2, 1.8877e13, 1.06804),
    (24, 2048, 16, 1024, 12800, 64, 2, 4, 4, 4, 1.8878e13, 0.959166),
]
BYTES = [  # on the axes tensor, pipeline and data
    (8, 2048, 16, 1024, 51200, 16, 2, 1, 1, 4, 0, 268435456, 0),
    (24, 2048, 16, 1024, 12800, 64, 2, 4, 4, 4, 4831838208, 268435456, 453556224),
]
