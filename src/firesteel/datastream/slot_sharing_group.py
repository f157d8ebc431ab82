"""Slot sharing groups and the resources they ask for."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from firesteel.common._override import override
from firesteel.common.errors import ProgramError

__all__ = ["MemorySize", "SlotSharingGroup"]

_UNITS = ((2**40, "tb"), (2**30, "gb"), (2**20, "mb"), (2**10, "kb"))


@functools.total_ordering
class MemorySize:
    """A number of bytes.

    >>> MemorySize.of_mebi_bytes(2048).get_gibi_bytes()
    2
    >>> str(MemorySize.of_mebi_bytes(64))
    '64 mb'
    """

    __slots__ = ("_bytes",)

    def __init__(self, bytes_size: int = 0) -> None:
        if bytes_size < 0:
            raise ProgramError(f"a memory size cannot be negative, got {bytes_size}")
        self._bytes = bytes_size

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        """So many times 2**20 bytes."""
        return MemorySize(mebi_bytes * 2**20)

    def get_bytes(self) -> int:
        """The size in bytes, whatever unit it was given in."""
        return self._bytes

    def get_kibi_bytes(self) -> int:
        """The number of whole kibibytes."""
        return self._bytes >> 10

    def get_mebi_bytes(self) -> int:
        """The number of whole mebibytes."""
        return self._bytes >> 20

    def get_gibi_bytes(self) -> int:
        """The number of whole gibibytes."""
        return self._bytes >> 30

    def get_tebi_bytes(self) -> int:
        """The number of whole tebibytes."""
        return self._bytes >> 40

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemorySize) and self._bytes == other._bytes

    def __lt__(self, other: MemorySize) -> bool:
        if not isinstance(other, MemorySize):
            raise ProgramError(f"a memory size cannot be compared with {other!r}")
        return self._bytes < other._bytes

    @override
    def __hash__(self) -> int:
        return hash(self._bytes)

    @override
    def __str__(self) -> str:
        for factor, unit in _UNITS:
            if self._bytes and self._bytes % factor == 0:
                return f"{self._bytes // factor} {unit}"
        return f"{self._bytes} bytes"

    @override
    def __repr__(self) -> str:
        return f"MemorySize({self})"


@dataclass(frozen=True, slots=True)
class _Resources:
    cpu_cores: float | None = None
    task_heap: MemorySize | None = None
    task_off_heap: MemorySize | None = None
    managed: MemorySize | None = None
    external: Mapping[str, float] = field(default_factory=dict)


class SlotSharingGroup:
    """A name for operators that may share slots, and the resources such a slot should have.

    Operators of different groups never share a task. The resources are hints: Spark sizes its
    executors by its own settings.

    >>> group = SlotSharingGroup.builder("heavy").set_cpu_cores(2.0).set_task_heap_memory_mb(512).build()
    >>> group.get_name(), group.get_cpu_cores(), str(group.get_task_heap_memory())
    ('heavy', 2.0, '512 mb')
    """

    __slots__ = ("_name", "_resources")

    def __init__(self, name: str, resources: _Resources | None = None) -> None:
        self._name = name
        self._resources = resources or _Resources()

    def get_name(self) -> str:
        """What operators call it that want to be in the group."""
        return self._name

    def get_managed_memory(self) -> MemorySize | None:
        """Memory for state backends, None when it was not set."""
        return self._resources.managed

    def get_task_heap_memory(self) -> MemorySize | None:
        """Heap of the tasks, None when it was not set."""
        return self._resources.task_heap

    def get_task_off_heap_memory(self) -> MemorySize | None:
        """Memory of the tasks outside the heap, None when it was not set."""
        return self._resources.task_off_heap

    def get_cpu_cores(self) -> float | None:
        """Processor cores, None when they were not set."""
        return self._resources.cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        """Other resources by name, such as ``{"gpu": 1.0}``."""
        return dict(self._resources.external)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        """A builder for the group ``name``."""
        return SlotSharingGroup.Builder(name)

    @override
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SlotSharingGroup)
            and self._name == other._name
            and self._resources == other._resources
        )

    @override
    def __hash__(self) -> int:
        return hash((self._name, self._resources.cpu_cores, self._resources.task_heap))

    @override
    def __repr__(self) -> str:
        return f"SlotSharingGroup({self._name!r})"

    class Builder:
        """Collects the resources of a group; `build` checks them."""

        def __init__(self, name: str) -> None:
            if not name:
                raise ProgramError("a slot sharing group needs a name")
            self._name = name
            self._cpu_cores: float | None = None
            self._task_heap: MemorySize | None = None
            self._task_off_heap: MemorySize | None = None
            self._managed: MemorySize | None = None
            self._external: dict[str, float] = {}

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            """Ask for processor cores; more than 0."""
            if not (cpu_cores > 0 and math.isfinite(cpu_cores)):
                raise ProgramError(
                    f"slot sharing group {self._name!r}: cpu cores must be > 0, got {cpu_cores}"
                )
            self._cpu_cores = float(cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Ask for heap; more than 0."""
            if not task_heap_memory.get_bytes():
                raise ProgramError(f"slot sharing group {self._name!r}: task heap memory must be > 0")
            self._task_heap = task_heap_memory
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Ask for heap in mebibytes."""
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(self, task_off_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Ask for memory outside the heap."""
            self._task_off_heap = task_off_heap_memory
            return self

        def set_task_off_heap_memory_mb(self, task_off_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            """Ask for memory outside the heap in mebibytes."""
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            """Ask for memory for state backends."""
            self._managed = managed_memory
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            """Ask for memory for state backends in mebibytes."""
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            """Ask for another resource by name."""
            self._external[name] = value
            return self

        def build(self) -> SlotSharingGroup:
            """The group; cpu cores and heap must be given together as soon as any resource is."""
            resources = _Resources(
                self._cpu_cores, self._task_heap, self._task_off_heap, self._managed, dict(self._external)
            )
            anything = resources != _Resources()
            if anything and (self._cpu_cores is None or self._task_heap is None):
                raise ProgramError(
                    f"slot sharing group {self._name!r} asks for resources and must then set both "
                    "cpu cores and task heap memory"
                )
            return SlotSharingGroup(self._name, resources)
