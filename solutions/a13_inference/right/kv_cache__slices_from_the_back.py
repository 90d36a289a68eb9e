"""Free pages are taken from the back, and positions are written a page's worth at a time."""

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

    def new(self):
        name, self.next_name = self.next_name, self.next_name + 1
        self.tables[name], self.lengths[name] = [], 0
        return name

    @property
    def used_pages(self):
        return len(self.counts) - self.counts.count(0)

    @property
    def used_bytes(self):
        return self.used_pages * 2 * self.keys.nbytes // len(self.keys)

    def append(self, name, keys, values):
        self._known(name)
        table, start, size = self.tables[name], self.lengths[name], self.keys.shape[1]
        last_is_shared = bool(table) and start % size > 0 and self.counts[table[-1]] > 1
        fresh = max(0, (start + len(keys) + size - 1) // size - len(table))
        fresh += last_is_shared and len(keys) > 0
        free = [page for page in range(len(self.counts)) if not self.counts[page]]
        if fresh > len(free):
            raise RuntimeError(f"{fresh} pages are needed and {len(free)} are free")
        done = 0
        while done < len(keys):
            place = (start + done) % size
            if place == 0:
                table.append(free.pop())
                self.counts[table[-1]] = 1
            elif self.counts[table[-1]] > 1:
                copy = free.pop()
                for pool in (self.keys, self.values):
                    pool[copy, :place] = pool[table[-1], :place]
                self.counts[table[-1]] -= 1
                self.counts[copy], table[-1] = 1, copy
            count = min(size - place, len(keys) - done)
            self.keys[table[-1], place : place + count] = keys[done : done + count]
            self.values[table[-1], place : place + count] = values[done : done + count]
            done += count
        self.lengths[name] += len(keys)

    def gather(self, name):
        self._known(name)
        found = []
        for pool in (self.keys, self.values):
            rows = [row for page in self.tables[name] for row in pool[page]]
            rows = rows[: self.lengths[name]]
            found.append(np.array(rows, pool.dtype).reshape(-1, *pool.shape[2:]))
        return tuple(found)

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
            self.counts[page] -= 1
        self.lengths.pop(name)

    def _known(self, name):
        if name not in self.tables:
            raise ValueError(f"no sequence {name}")
