"""A paged cache: keys and values of many sequences, in pages of one pool.

    a has 6 positions, pages of 4. b was forked from a; then position 6 came to b.

    page      0         1         2         3         4         5
              a: 4 5    free      a: 0-3    b: 4-6    free      free
                                  b: 0-3

    tables  {a: [2, 0], b: [2, 3]}      counts  [1, 0, 2, 1, 0, 0]

A sequence takes a page when it needs one. Any free page will do. At most one page of a sequence is
not full. Sequences that begin with the same prompt share pages. **Copy on write**: before positions
are written into a page that another sequence uses too, the page is copied, and the writer's table
names the copy.

- S positions need ``ceil(S / page_size)`` pages. Example: 6 positions in pages of 4 need 2.
- ``fork`` copies nothing. Example: 6 positions in pages of 4, fork, and append 1 on each side. The
  side that writes first copies the page of positions 4 and 5, and the other side keeps it: 3 pages
  in all.
- A fork at a page's end never leads to a copy, since the next position goes into a new page.
  Example: the same with 8 positions: 2 shared pages and 2 new ones, 4 in all.
- A page that only one sequence uses, from the beginning or again, is written in place. An append
  of no positions takes no page and copies none.
- A page is free again when the last sequence that uses it is freed. Forks may be forked.
- A name that was never given, or whose sequence was freed, raises ``ValueError`` in each method.
- An error changes nothing: neither lengths, nor pages, nor what sequences hold.
- ``token_bytes``: keys and values of one position in all layers. Example: Llama 3 8B has 32
  layers, 8 key heads of width 128, and 2 bytes an element: 131,072 bytes, or 128 KiB.

The tests look at ``tables``, ``lengths``, ``counts``, ``keys`` and ``values``, and call the
methods. Other attributes are yours: you may add some, or rename ``next_name``.

Source: Kwon et al., Efficient memory management for large language model serving with
PagedAttention, 2023, section 4.
"""

import numpy as np


def token_bytes(layers: int, kv_heads: int, head_dim: int, element_bytes: int = 2) -> int:
    """Bytes of the keys and values of one position, an int."""
    ### BEGIN SOLUTION
    return 2 * layers * kv_heads * head_dim * element_bytes
    ### END SOLUTION


class PagedCache:
    """Pages for the keys and values of sequences that come and go.

    Args:
        num_pages, page_size: how many pages, and how many positions in each; at least 1.
        layers, kv_heads, head_dim: of the model.
        dtype: of keys and values.

    Attributes:
        keys, values: the pool, shape ``(num_pages, page_size, layers, kv_heads, head_dim)``.
        counts: how many sequences use each page, a list of ``num_pages`` numbers; 0: it is free.
        tables: the page numbers of each sequence, in order, a dict of lists.
        lengths: how many positions each sequence has, a dict.
    """

    def __init__(
        self,
        num_pages: int,
        page_size: int,
        layers: int,
        kv_heads: int,
        head_dim: int,
        dtype: str = "float64",
    ):
        shape = (num_pages, page_size, layers, kv_heads, head_dim)
        self.keys, self.values = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self.counts = [0] * num_pages
        self.tables, self.lengths = {}, {}
        self.next_name = 0

    def new(self) -> int:
        """A new sequence without positions: its name, a number that is never given again."""
        name, self.next_name = self.next_name, self.next_name + 1
        self.tables[name], self.lengths[name] = [], 0
        return name

    @property
    def used_pages(self) -> int:
        """How many pages are in use; a shared page counts once."""
        ### BEGIN SOLUTION
        return sum(count > 0 for count in self.counts)
        ### END SOLUTION

    @property
    def used_bytes(self) -> int:
        """Bytes of the keys and values in the pages in use, full or not."""
        ### BEGIN SOLUTION
        return self.used_pages * (self.keys[0].nbytes + self.values[0].nbytes)
        ### END SOLUTION

    def append(self, name: int, keys: np.ndarray, values: np.ndarray) -> None:
        """Add n >= 0 positions at the end of a sequence.

        Args:
            name: of the sequence.
            keys, values: both of shape ``(n, layers, kv_heads, head_dim)``, of the cache's dtype.

        Raises:
            RuntimeError: more pages are needed than are free, those for copies included. The
                message says both numbers.
        """
        ### BEGIN SOLUTION
        table, start, n = self._table(name), self.lengths[name], len(keys)
        page_size = self.keys.shape[1]
        inside = start % page_size  # positions in a last page that isn't full
        copies = n > 0 and inside > 0 and self.counts[table[-1]] > 1
        free = [page for page, count in enumerate(self.counts) if count == 0]
        needed = -(-(start + n) // page_size) - len(table) + copies
        if needed > len(free):
            raise RuntimeError(
                f"{n} positions for sequence {name} need {needed} pages and {len(free)} are free: "
                "free a sequence first"
            )
        if copies:
            shared, table[-1] = table[-1], free.pop(0)
            self.keys[table[-1]], self.values[table[-1]] = self.keys[shared], self.values[shared]
            self.counts[shared] -= 1
            self.counts[table[-1]] = 1
        for page in free[: needed - copies]:
            table.append(page)
            self.counts[page] = 1
        for i in range(n):
            page, place = table[(start + i) // page_size], (start + i) % page_size
            self.keys[page, place], self.values[page, place] = keys[i], values[i]
        self.lengths[name] = start + n
        ### END SOLUTION

    def gather(self, name: int) -> tuple[np.ndarray, np.ndarray]:
        """All positions of a sequence in order: ``(keys, values)``, new arrays.

        Both have shape ``(S, layers, kv_heads, head_dim)``; S may be 0.
        """
        ### BEGIN SOLUTION
        table, length = self._table(name), self.lengths[name]
        return tuple(
            pool[table].reshape(-1, *pool.shape[2:])[:length].copy()
            for pool in (self.keys, self.values)
        )
        ### END SOLUTION

    def fork(self, name: int) -> int:
        """A new sequence that begins with all positions of this one, and shares its pages.

        Returns:
            The new sequence's name.
        """
        ### BEGIN SOLUTION
        table, child = self._table(name), self.new()
        for page in table:
            self.counts[page] += 1
        self.tables[child], self.lengths[child] = list(table), self.lengths[name]
        return child
        ### END SOLUTION

    def free(self, name: int) -> None:
        """Give a sequence back; its name is unknown from now on."""
        ### BEGIN SOLUTION
        for page in self._table(name):
            self.counts[page] -= 1
        del self.tables[name], self.lengths[name]

    def _table(self, name):
        if name not in self.tables:
            raise ValueError(f"there is no sequence {name}: it was freed, or never made")
        return self.tables[name]
        ### END SOLUTION
