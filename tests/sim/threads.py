"""Threads, locks and time of the simulation: the product's own code runs in greenlets, one at a time, and only a seed decides which one goes on.

The modules of the reader layer find ``Locks`` where they look for ``threading``, and a clock that moves when nobody can go on. A greenlet may be
left at every lock that it takes, at every wait, and at every call of the simulated database; so every order of critical sections is possible, none
needs a thread, and the same seed gives the same order. A wait that nobody ends is seen at once: nothing is ready and nothing is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Self

from greenlet import GreenletExit, getcurrent, greenlet


class Task(greenlet):
    """One thread of the product: ready, or parked until it is woken or its time has come."""

    name = ""
    waiters: list[Task] | None = None
    deadline: float | None = None


class Hub:
    """All greenlets of one schedule. ``running`` is None while the schedule itself acts, which may not wait."""

    def __init__(self) -> None:
        self.begin(Random(0), preempts=0.5, trace=None)

    def begin(self, chance: Random, *, preempts: float, trace: list[str] | None) -> None:
        self.chance = chance
        self.random = chance.random
        self.preempts = preempts
        self.trace = trace
        self.is_told = trace is not None
        """Whether anybody reads what is noted: ask where a text takes time to be made."""
        self.main = getcurrent()
        self.switch = self.main.switch
        self.now_s = 1000.0
        self.ready: list[Task] = []
        self.timed: list[Task] = []
        self.tasks: list[Task] = []
        self.running: Task | None = None
        self.dying = False

    def note(self, text: str) -> None:
        """A line of the schedule, which a failure prints."""
        if self.trace is not None:
            self.trace.append(f"{self.now_s:9.2f}  {self.running.name if self.running else '-':8}  {text}")

    # ---- called by tasks

    def pause(self) -> None:
        """Another task may go on here."""
        if self.running is not None and not self.dying and self.random() < self.preempts:
            self.switch()

    def park(self, waiters: list[Task] | None, deadline: float | None) -> None:
        """Wait to be woken by ``waiters``' owner, or until ``deadline``."""
        task = self.running
        assert task is not None, "the schedule itself must never wait"
        if self.dying:
            raise GreenletExit
        self.ready.remove(task)
        task.waiters, task.deadline = waiters, deadline
        if waiters is not None:
            waiters.append(task)
        if deadline is not None:
            self.timed.append(task)
        self.switch()

    def wake(self, task: Task) -> None:
        """It is ready again."""
        if task.waiters is not None:
            task.waiters.remove(task)
            task.waiters = None
        if task.deadline is not None:
            self.timed.remove(task)
            task.deadline = None
        self.ready.append(task)

    def sleep(self, seconds: float) -> None:
        """Be ready again after that time."""
        self.park(None, self.now_s + seconds)

    # ---- called by the schedule

    def spawn(self, name: str, work: Callable[[], object]) -> Task:
        task = Task(work, self.main)
        task.name = name
        self.tasks.append(task)
        self.ready.append(task)
        return task

    def run(self, task: Task) -> None:
        """Let a ready task go on until it pauses, waits or ends."""
        self.running = task
        task.switch()
        self.running = None
        if task.dead:
            self.ready.remove(task)
            self.tasks.remove(task)

    def pass_time(self) -> bool:
        """Nobody is ready: let the time come for which somebody waits. False: nobody does."""
        if not self.timed:
            return False
        self.now_s = max(self.now_s, min(task.deadline for task in self.timed if task.deadline is not None))
        for task in [task for task in self.timed if task.deadline is not None and task.deadline <= self.now_s]:
            self.wake(task)
        return True

    def kill(self) -> None:
        """Every task ends where it is, as by kill -9."""
        self.dying = True
        for task in self.tasks:
            self.running = task
            task.throw()
        self.running = None
        self.tasks, self.ready, self.timed = [], [], []
        self.dying = False


HUB = Hub()
"""The one that is used: one schedule is played at a time."""


class Lock:
    """A lock, and a condition over it: ``threading.Lock``, ``RLock`` and ``Condition`` in one."""

    def __init__(self) -> None:
        self._owner: Task | None = None
        self._depth = 0
        self._blocked: list[Task] = []
        self._waiting: list[Task] = []

    def __enter__(self) -> Self:
        hub = HUB
        task = hub.running
        if task is not None:
            if self._owner is task:
                self._depth += 1
                return self
            if hub.random() < hub.preempts and not hub.dying:
                hub.switch()
            while self._owner is not None:
                if hub.dying:
                    return self
                hub.park(self._blocked, None)
            self._owner = task
        else:
            assert self._owner is None, "nobody is left with a lock in his hands while the schedule acts"
        return self

    def __exit__(self, *_: object) -> None:
        if self._depth:
            self._depth -= 1
            return
        self._owner = None
        if self._blocked:
            for task in list(self._blocked):
                HUB.wake(task)

    def acquire(self, blocking: bool = True) -> bool:
        if not blocking and self._owner is not None and self._owner is not HUB.running:
            return False
        self.__enter__()
        return True

    def release(self) -> None:
        self.__exit__()

    def wait(self, timeout: float | None = None) -> bool:
        hub = HUB
        deadline = None if timeout is None else hub.now_s + timeout
        self.__exit__()
        hub.park(self._waiting, deadline)
        while self._owner is not None:
            hub.park(self._blocked, None)
        self._owner = hub.running
        return deadline is None or hub.now_s < deadline

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        result = predicate()
        if result or (timeout is not None and timeout <= 0):
            return result
        hub = HUB
        task = hub.running
        deadline = None if timeout is None else hub.now_s + timeout
        while not result:
            self.__exit__()
            hub.park(self._waiting, deadline)
            while self._owner is not None:
                hub.park(self._blocked, None)
            self._owner = task
            result = predicate()
            if deadline is not None and hub.now_s >= deadline:
                break
        return result

    def notify_all(self) -> None:
        for task in list(self._waiting):
            HUB.wake(task)


class Event:
    """``threading.Event``."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Task] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        for task in list(self._waiting):
            HUB.wake(task)

    def wait(self, timeout: float | None = None) -> bool:
        if self._is_set:
            return True
        if timeout is not None and timeout <= 0:
            HUB.pause()
            return self._is_set
        HUB.park(self._waiting, None if timeout is None else HUB.now_s + timeout)
        return self._is_set


class Thread:
    """``threading.Thread``. ``join`` waits for ever: whoever does not end is found by the schedule."""

    def __init__(self, *, target: Callable[..., object], args: tuple[Any, ...] = (), name: str = "", daemon: bool | None = None) -> None:
        self._work = lambda: target(*args)
        self._name = name
        self._task: Task | None = None

    def start(self) -> None:
        self._task = HUB.spawn(self._name, self._work)

    def join(self, timeout: float | None = None) -> None:
        while self._task is not None and not self._task.dead:
            HUB.sleep(0.1)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.dead


class Locks:
    """In the place of the module ``threading``."""

    Lock = RLock = Condition = Lock
    Event = Event
    Thread = Thread


class Time:
    """In the place of the module ``time``."""

    @staticmethod
    def monotonic() -> float:
        return HUB.now_s

    @staticmethod
    def time_ns() -> int:
        return int(HUB.now_s * 1_000_000_000)


class Chance:
    """In the place of the module ``random``."""

    @staticmethod
    def random() -> float:
        return HUB.random()


class SimClock:
    """A ``dblog.clock.Clock``."""

    def now_us(self) -> int:
        return 1_764_000_000_000_000 + int(HUB.now_s * 1_000_000)

    def monotonic_s(self) -> float:
        return HUB.now_s
