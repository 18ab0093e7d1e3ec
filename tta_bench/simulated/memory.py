"""The allocator of a simulated GPU: counts what tensors hold, in CUDA's blocks of 512 bytes."""

from __future__ import annotations

from weakref import WeakValueDictionary

from torch import Tensor

from tta_bench.simulated.streams import Stream

BLOCK = 512


class Allocator:
    """How much memory of one GPU is in use, was in use, and is kept for later."""

    def __init__(self) -> None:
        self.allocated = self.peak = self.reserved = 0

    def take(self, size: int) -> None:
        self.allocated += size
        self.peak = max(self.peak, self.allocated)
        self.reserved = max(self.reserved, self.allocated)

    def give(self, size: int) -> None:
        self.allocated -= size

    def reset_peak(self) -> None:
        self.peak = self.allocated

    def empty_cache(self) -> None:
        self.reserved = self.allocated


class Room:
    """Memory that one or more tensors share; it is returned with the last of them."""

    def __init__(self, allocator: Allocator, size: int, stream: Stream) -> None:
        self._allocator, self._size = allocator, -(-size // BLOCK) * BLOCK
        allocator.take(self._size)
        self.write(stream)

    def write(self, stream: Stream) -> None:
        """Note who wrote here last."""
        self.writer = stream.stream_id, stream.issue()

    def __del__(self) -> None:
        self._allocator.give(self._size)


class Rooms:
    """The memory behind each tensor's storage."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[int, Room] = WeakValueDictionary()

    def of(self, held: Tensor, allocator: Allocator, stream: Stream) -> Room:
        storage = held.untyped_storage()
        address = storage.data_ptr()
        room = self._known.get(address) if address else None
        if room is None:
            room = Room(allocator, storage.nbytes(), stream)
            if address:
                self._known[address] = room
        return room
