"""Hashes the bytes of a tensor, to compare two tensors without a copy."""

from __future__ import annotations

from typing import Any

_COLUMNS = 256
_ROWS = 256
"""Rows of a block of 512 KiB, which is read twice while it is in the cache."""
_MIX = 0x9E37_79B9_7F4A_7C15 - (1 << 64)


class Fingerprints:
    """Hashes with torch; keeps the weights of positions."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._ramp: Any = None

    def of(self, tensor: Any) -> Any:
        """Return the hash as a tensor of one integer on the same device.

        It is the sum over the row sums and column sums of the bytes as a table, each weighted by position.
        """
        torch = self._torch
        flat = tensor.detach().contiguous().reshape(-1)
        size = flat.element_size()
        whole = flat.numel() - flat.numel() % max(8 // size, 1)
        if size > 8 or flat.storage_offset() * size % 8:
            flat, whole = flat.clone(), 0
        words = flat[:whole].view(torch.int64)
        rows = words.numel() // _COLUMNS
        parts = list(self._table(words[: rows * _COLUMNS].view(rows, _COLUMNS))) if rows else []
        if rows * _COLUMNS < words.numel():
            parts.append(words[rows * _COLUMNS :])
        if whole < flat.numel():
            parts.append(flat[whole:].view(torch.uint8).to(torch.int64))
        if not parts:
            return torch.zeros((), dtype=torch.int64, device=flat.device)
        sums = torch.cat(parts)
        return (sums * self._weights(sums.numel(), sums.device)).sum()

    def rows(self, table: Any) -> Any:
        """Return the hashes of the rows of a small table of the host, equal to `of` of each row."""
        torch = self._torch
        width = table.shape[1]
        whole = width - width % max(8 // table.element_size(), 1)
        parts = []
        # Clones: `contiguous` keeps strides of axes of size 1, which prevent a view as another type.
        if whole:
            words = table[:, :whole].clone(memory_format=torch.contiguous_format).view(torch.int64)
            rows = words.shape[1] // _COLUMNS
            if rows:
                body = words[:, : rows * _COLUMNS].reshape(-1, rows, _COLUMNS)
                parts += [body.sum(1), body.sum(2)]
            parts.append(words[:, rows * _COLUMNS :])
        if whole < width:
            rest = table[:, whole:].clone(memory_format=torch.contiguous_format)
            parts.append(rest.view(torch.uint8).to(torch.int64))
        sums = torch.cat(parts, 1)
        return (sums * self._weights(sums.shape[1], sums.device)).sum(1)

    def _table(self, body: Any) -> tuple[Any, Any]:
        """Return the column sums and the row sums of a table."""
        if body.device.type != "cpu":
            return body.sum(0), body.sum(1)
        blocks = body.split(_ROWS)
        rows = [blocks[0].sum(1)]
        columns = blocks[0].sum(0)
        for block in blocks[1:]:
            rows.append(block.sum(1))
            columns += block.sum(0)
        return columns, self._torch.cat(rows)

    def _weights(self, count: int, device: Any) -> Any:
        if self._ramp is None or count > self._ramp.numel():
            torch = self._torch
            self._ramp = (
                torch.arange(1, max(2 * count, 1 << 16), dtype=torch.int64, device="cpu")
                .mul_(_MIX)
                .bitwise_or_(1)
            )
        weights = self._ramp[:count]
        return weights if device.type == "cpu" else weights.to(device, non_blocking=True)
