"""One position at a time, counted by tables before anything is written; NumPy counts."""

import numpy as np


def token_bytes(layers, kv_heads, head_dim, element_bytes=2):
    return int(np.prod([2, layers, kv_heads, head_dim, element_bytes], dtype=object))


class PagedCache:
    def __init__(self, num_pages, page_size, layers, kv_heads, head_dim, dtype="float64"):
        shape = (num_pages, page_size, layers, kv_heads, head_dim)
        self.pool = np.zeros((2, *shape), dtype)
        self.keys, self.values = self.pool
        self.counts = np.zeros(num_pages, int)
        self.tables, self.lengths = {}, {}
        self.next_name = 0

    def new(self):
        name, self.next_name = self.next_name, self.next_name + 1
        self.tables[name], self.lengths[name] = [], 0
        return name

    @property
    def used_pages(self):
        return np.count_nonzero(self.counts)

    @property
    def used_bytes(self):
        return self.pool.nbytes // len(self.counts) * self.used_pages

    def append(self, name, keys, values):
        table, length = self._of(name)
        new = np.array([keys, values], self.pool.dtype)
        size, total = self.pool.shape[2], length + new.shape[1]
        shared = total > length and length % size and self.counts[table[-1]] > 1
        needed = (total + size - 1) // size - len(table) + bool(shared)
        free = np.flatnonzero(self.counts == 0)
        if needed > free.size:
            raise RuntimeError(f"sequence {name}: {needed} pages needed, {free.size} free")
        for i in range(length, total):
            if i % size == 0:
                table.append(self._page())
            elif self.counts[table[-1]] > 1:
                copy = self._page()
                self.pool[:, copy] = self.pool[:, table[-1]]
                self.counts[table[-1]] -= 1
                table[-1] = copy
            self.pool[:, table[-1], i % size] = new[:, i - length]
        self.lengths[name] = total

    def _page(self):
        page = int(self.counts.argmin())
        self.counts[page] = 1
        return page

    def _of(self, name):
        try:
            return self.tables[name], self.lengths[name]
        except KeyError:
            raise ValueError(f"sequence {name} was freed") from None

    def gather(self, name):
        table, length = self._of(name)
        found = np.zeros((2, length, *self.pool.shape[3:]), self.pool.dtype)
        for i in range(length):
            found[:, i] = self.pool[:, table[i // self.pool.shape[2]], i % self.pool.shape[2]]
        return found[0], found[1]

    def fork(self, name):
        table, length = self._of(name)
        child = self.new()
        self.tables[child], self.lengths[child] = table[:], length
        np.add.at(self.counts, np.array(table, int), 1)
        return child

    def free(self, name):
        table, _ = self._of(name)
        np.subtract.at(self.counts, np.array(table, int), 1)
        del self.tables[name]
        del self.lengths[name]
