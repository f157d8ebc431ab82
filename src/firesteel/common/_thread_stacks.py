"""What the threads of this process do: all of them now, or one of them again and again for a while.

Samples are taken from inside, by a thread that looks at the frames of the others (``sys._current_frames``). It needs no rights and
no tool, and works wherever Python does; why not by a profiler that attaches from outside says decision 0038.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

__all__ = ["SampledThreads", "ThreadStates", "dump_threads", "frame_name", "sample_threads"]

#: Functions of the standard library in which a thread waits, by the ends of their files: where the system does not tell.
_WAITING_IN = (
    "threading.py",
    "queue.py",
    "selectors.py",
    "socket.py",
    "subprocess.py",
    "connection.py",
    "mailbox.py",
)
_ENGINE = "firesteel."
#: What starts a process of Spark; nothing of it is worth a line where none of the engine's frames is in a stack.
_STARTING = ("runpy", "__main__", "pyspark.daemon")
#: While samples are taken a thread holds the interpreter for so long at most. The usual five milliseconds would mean that
#: most samples show a thread where it lets go by itself, at reads and writes.
_SWITCH_SECONDS = 0.0005

#: How often which stack was seen: whether its thread ran, and its frames from the outermost to the innermost.
SampledThreads = Mapping[tuple[bool, tuple[str, ...]], int]


def dump_threads() -> list[tuple[str, str]]:
    """Name and stack of every thread, in the order of their numbers."""
    threads = {thread.ident: thread for thread in threading.enumerate()}
    return [
        _dumped(threads.get(ident), ident, frame) for ident, frame in sorted(sys._current_frames().items())
    ]


def _dumped(thread: threading.Thread | None, ident: int, frame: FrameType) -> tuple[str, str]:
    name = f"thread {ident}" if thread is None else thread.name
    kind = " daemon" if thread is not None and thread.daemon else ""
    stack = "".join(traceback.format_stack(frame))
    return name, f'"{name}"{kind} id={ident}\n{stack}\n'


def sample_threads(
    main: int, samples: int, delay: float, depth: int, pause: Callable[[float], object] = time.sleep
) -> SampledThreads:
    """Look ``samples`` times, ``delay`` seconds apart, at the thread ``main`` (its ident), and at others while they run.

    Others wait most of the time, and that is not where the time of the task goes. Of a stack the innermost ``depth`` frames
    count. Frames of who has called the engine - interpreter, PySpark - are left out.
    """
    counts: Counter[tuple[bool, tuple[str, ...]]] = Counter()
    own = threading.get_ident()
    with ThreadStates() as states, _SWITCHING.often():
        for _ in range(samples):
            pause(delay)
            threads = {thread.ident: thread for thread in threading.enumerate() if thread.ident != own}
            # Asked first: who runs when this thread asks the system holds the interpreter, and waits for it afterwards.
            runs = states.is_running(threads[main]) if main in threads else None
            frames = sys._current_frames()
            if main in frames:
                waits = _seems_to_wait(frames[main]) if runs is None else not runs
                counts[not waits, _stack(frames[main], depth)] += 1
            # The system is asked for few: every question takes a turn of the interpreter.
            others = {
                ident: (f"thread {threads[ident].name}", *_stack(frame, depth))
                for ident, frame in frames.items()
                if ident != main and ident in threads and not _seems_to_wait(frame)
            }
            del frames
            for ident, stack in others.items():
                if states.is_running(threads[ident]) is not False:
                    counts[True, stack] += 1
    return counts


class _Switching:
    """Makes threads take turns more often while somebody samples, however many do at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samplers = 0
        self._usual = 0.0

    @contextlib.contextmanager
    def often(self) -> Iterator[None]:
        with self._lock:
            self._samplers += 1
            if self._samplers == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, _SWITCH_SECONDS))
        try:
            yield
        finally:
            with self._lock:
                self._samplers -= 1
                if self._samplers == 0:
                    sys.setswitchinterval(self._usual)


_SWITCHING = _Switching()


def frame_name(frame: FrameType) -> str:
    """A frame for people: module, function, line."""
    code = frame.f_code
    return f"{frame.f_globals.get('__name__', '?')}.{code.co_qualname}:{frame.f_lineno}"


def _stack(frame: FrameType, depth: int) -> tuple[str, ...]:
    """The innermost frames, outermost first, from the first one of the engine on."""
    names: list[str] = []
    from_engine = from_program = 0  # how many of them, counted from the innermost
    for at in _chain(frame):
        names.append(frame_name(at))
        module = str(at.f_globals.get("__name__", ""))
        if module.startswith(_ENGINE):
            from_engine = len(names)
        if module not in _STARTING:
            from_program = len(names)
    kept = names[: from_engine or from_program or len(names)]
    return tuple(reversed(kept[:depth]))


def _chain(frame: FrameType) -> list[FrameType]:
    """The frame and all that led to it.

    In as few instructions as possible: its thread may go on between any two of them, and a chain that is followed while its
    functions return and their greenlets switch is no stack any more.
    """
    chain: list[FrameType] = []
    at: FrameType | None = frame
    while at is not None:
        chain.append(at)
        at = at.f_back
    return chain


def _seems_to_wait(frame: FrameType) -> bool:
    return frame.f_code.co_filename.endswith(_WAITING_IN)


class ThreadStates:
    """Whether threads of this process run, as Linux tells it; elsewhere nobody knows."""

    def __init__(self) -> None:
        self._files: dict[int, int] = {}

    def __enter__(self) -> ThreadStates:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def is_running(self, thread: threading.Thread) -> bool | None:
        """Whether it runs, or would if a processor were free; None when that is not known."""
        with contextlib.suppress(OSError):
            descriptor = self._file(thread.native_id or 0)
            # One call, in which Python lets others run: a busy thread is seen at its work, and not waiting for this one.
            content = os.pread(descriptor, 512, 0)
            state = content[content.rfind(b")") + 2 :][:1]
            return state == b"R" if state else None
        return None

    def _file(self, native_id: int) -> int:
        if native_id not in self._files:
            self._files[native_id] = os.open(f"/proc/self/task/{native_id}/stat", os.O_RDONLY)
        return self._files[native_id]
