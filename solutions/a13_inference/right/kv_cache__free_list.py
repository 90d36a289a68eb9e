"""A stack of free pages, chunks page by page, and arrays of page numbers."""

import numpy as np


def token_bytes(layers, kv_heads, head_dim, element_bytes=2):
    return layers * kv_heads * head_dim * element_bytes * 2


class PagedCache:
    def __init__(self, num_pages, page_size, layers, kv_heads, head_dim, dtype="float64"):
        shape = (num_pages, page_size, layers, kv_heads, head_dim)
        self.keys, self.values = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self.counts = [0] * num_pages
        self.tables, self.lengths = {}, {}
        self.next_name = 0
        self.unused = list(range(num_pages))

    def new(self):
        name, self.next_name = self.next_name, self.next_name + 1
        self.tables[name], self.lengths[name] = [], 0
        return name

    @property
    def used_pages(self):
        return len(self.counts) - len(self.unused)

    @property
    def used_bytes(self):
        return self.used_pages * 2 * self.keys[0].nbytes

    def _known(self, name):
        if name not in self.lengths:
            raise ValueError(f"sequence {name} is not in the cache")

    def _take(self):
        page = self.unused.pop()
        self.counts[page] = 1
        return page

    def _drop(self, page):
        self.counts[page] -= 1
        if not self.counts[page]:
            self.unused.append(page)

    def append(self, name, keys, values):
        self._known(name)
        size, table, length = self.keys.shape[1], self.tables[name], self.lengths[name]
        room = len(table) * size - length
        needed = max(0, len(keys) - room + size - 1) // size
        if len(keys) and room and self.counts[table[-1]] > 1:
            needed += 1
        if needed > len(self.unused):
            raise RuntimeError(f"{needed} pages are needed, {len(self.unused)} are free")
        done = 0
        while done < len(keys):
            place = length % size
            if place == 0:
                table.append(self._take())
            elif self.counts[table[-1]] > 1:
                old = table[-1]
                table[-1] = self._take()
                self.keys[table[-1], :place] = self.keys[old, :place]
                self.values[table[-1], :place] = self.values[old, :place]
                self._drop(old)
            count = min(size - place, len(keys) - done)
            self.keys[table[-1], place : place + count] = keys[done : done + count]
            self.values[table[-1], place : place + count] = values[done : done + count]
            done, length = done + count, length + count
        self.lengths[name] = length

    def gather(self, name):
        self._known(name)
        index = np.arange(self.lengths[name])
        pages = np.array(self.tables[name], int)[index // self.keys.shape[1]]
        places = index % self.keys.shape[1]
        return self.keys[pages, places], self.values[pages, places]

    def fork(self, name):
        self._known(name)
        child = self.new()
        self.tables[child] += self.tables[name]
        self.lengths[child] = self.lengths[name]
        for page in self.tables[child]:
            self.counts[page] += 1
        return child

    def free(self, name):
        self._known(name)
        for page in self.tables.pop(name):
            self._drop(page)
        self.lengths.pop(name)
