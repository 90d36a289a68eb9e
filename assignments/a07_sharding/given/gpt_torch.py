"""A small GPT whose memory is counted: supplied, nothing to write.

What it keeps for the backward pass is what ``gpt_memory.py`` counts: dropout's masks have one byte
an element, attention stores its probabilities, and all other tensors have the dtype of the weights.

``ringside.run("given/gpt_torch.py:kept", ...)`` answers with what torch's tracker counted: each
allocation and release of a tensor's storage, see ``Result.memory``.
"""

import torch
from torch import nn
from torch.nn import functional as F

DTYPES = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}  # by bytes an element


class Dropout(nn.Module):
    """Zero a tenth of the elements; keeps a mask of one byte an element for the backward pass."""

    def __init__(self, is_on):
        super().__init__()
        self.is_on = is_on

    def forward(self, x):
        return torch.native_dropout(x, 0.1, True)[0] if self.is_on else x


class Layer(nn.Module):
    """Attention and a perceptron, each with a layer norm before it and a residual around it."""

    def __init__(self, width, num_heads, dropout):
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = Dropout(dropout)

    def forward(self, x, unseen):
        b, s, h = x.shape
        q, k, v = (
            part.view(b, s, self.num_heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(h, dim=-1)
        )  # (b, a, s, h / a)
        scores = (q @ k.transpose(2, 3)) * (h // self.num_heads) ** -0.5  # (b, a, s, s)
        probabilities = scores.masked_fill(unseen, float("-inf")).softmax(dim=-1)
        y = self.dropout(probabilities) @ v
        x = x + self.dropout(self.out(y.transpose(1, 2).reshape(b, s, h)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class Gpt(nn.Module):
    """Words and positions, the layers, a last norm; the words serve as the last matrix too."""

    def __init__(self, num_layers, width, num_heads, sequence, vocabulary, dropout):
        super().__init__()
        self.words = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(sequence, width)
        self.layers = nn.ModuleList(Layer(width, num_heads, dropout) for _ in range(num_layers))
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def embedded(self, tokens):
        return self.dropout(self.words(tokens) + self.positions.weight)  # (b, s, h)

    def loss(self, x, targets):
        scores = F.linear(self.norm(x), self.words.weight)  # (b, s, V)
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def kept(group, sizes, batch, element_bytes, dropout, recompute):
    """What lives between forward and backward pass: one rank's own model, no communication.

    With ``recompute``, each layer keeps its input alone, and the last one has then been computed
    once more: the moment at which its backward pass begins.

    Returns:
        The number of parameters; ``Result.memory`` of the call has the bytes.
    """
    torch.set_default_dtype(DTYPES[element_bytes])
    torch.manual_seed(0)
    model = Gpt(*sizes, dropout)
    tokens = torch.zeros(batch, sizes[3], dtype=torch.long)
    unseen = torch.ones(sizes[3], sizes[3], dtype=torch.bool).triu(1)
    x = model.embedded(tokens)
    if not recompute:
        for layer in model.layers:
            x = layer(x, unseen)
        loss = model.loss(x, tokens)
    else:
        inputs = []
        for layer in model.layers:
            inputs.append(x)
            with torch.no_grad():
                x = layer(x, unseen)
        loss = model.loss(x.requires_grad_(), tokens)
        x = model.layers[-1](inputs[-1], unseen)
    function = (loss.grad_fn, x.grad_fn)  # the graph lives, the last output only if it needs it
    del loss, x
    torch.zeros(())  # the tracker looks at the memory as it is at the last operator
    del function
    return sum(p.numel() for p in model.parameters())


def stepped(group, sizes, stage):
    """One step of Adam in float32 on each rank: all on each rank (0), or by ``fully_shard`` (3).

    Returns:
        The number of parameters; ``Result.memory`` tells what is there after the step.
    """
    torch.set_default_dtype(torch.float32)
    torch.manual_seed(0)
    model = Gpt(*sizes, False)
    number = sum(p.numel() for p in model.parameters())
    if stage == 3:
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard

        mesh = DeviceMesh.from_group(group, "cpu")
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    return number
