"""Groups of runs, each one program, trained piece by piece; groups run side by side if devices are free.

Between two pieces the host checks the losses, stores the state, shows the progress, and ends if it was told to.
"""

import time
from collections.abc import Sequence
from contextlib import closing

import jax
import numpy as np
from jax.sharding import PartitionSpec

from lsalib._progress import Progress, log
from lsalib.training.devices import fetch, grid, make_mesh, place
from lsalib.training.groups import Group, GroupRecord, Plan
from lsalib.training.loop import PIECE, State, run_steps
from lsalib.training.processes import Notice, Preempted, number_of_first

__all__ = ["advance"]

# Seconds that a piece should take. Only between two pieces does the host hear SIGTERM or move the bar, so a piece must
# be short; but it waits there for the device and copies the losses, so it must not be too short.
_PIECE_SECONDS, _BAR_SECONDS = 5.0, 0.5
# Steps of the first piece. It also compiles the program, and nobody knows yet how long a step takes: with a thousand
# slow steps, a notice to end would be heard much too late.
_FIRST_PIECE = 8


class _Job:
    """A group on its devices."""

    def __init__(self, number: int, group: Group, record: GroupRecord, plan: Plan, devices: list):
        self.number, self.group, self.record, self.plan = number, group, record, plan
        mesh = make_mesh(*group.lots, devices)
        self.devices, self.program = list(mesh.devices.flat), group.program._replace(mesh=mesh)
        put = lambda leaf, spec: place(leaf, mesh, spec, group.chunk)
        self.state = jax.tree.map(lambda leaf: put(leaf, self.program.spec(leaf)), record.state)
        self.data = jax.tree.map(put, group.data, self.program.data_specs(group.data))
        self.keys = put(group.keys, PartitionSpec("seeds"))
        record.stopped = np.broadcast_to(record.stopped, group.units).copy()
        self.last_good = record.state
        self.previous = self.state, record.steps  # the state and the step at which the piece before began
        self.piece, self.seen = _FIRST_PIECE, record.steps
        if record.steps in plan.snapshots:
            record.snapshots[record.steps] = record.state.params

    @property
    def done(self) -> bool:
        return self.record.ended or self.record.steps >= self.plan.steps

    def launch(self) -> None:
        """Start the next piece, without waiting for it: JAX returns at once, and other groups can start on theirs."""
        begin = self.record.steps
        self.end, self.began = min(begin + self.piece, self.plan.next_mark(begin)), time.perf_counter()
        self.result = run_steps(self.state, self.data, self.keys, begin, self.end, program=self.program)

    def collect(self, seconds: float) -> int:
        """Wait for the piece, choose the next one's length to take so many seconds, and return the steps done."""
        record, begin, units = self.record, self.record.steps, self.group.units
        state, losses, finite = self.result
        losses = np.array(fetch(losses, units, first=1)[: self.end - begin])
        self._stop_what_is_not_finite(losses, fetch(finite, units), begin)
        self.previous, self.state, self.result = (self.state, begin), state, None
        record.losses.append(losses)
        record.steps = self.end
        if (record.stopped >= 0).all():
            # All runs have stopped: the remaining losses are NaN.
            record.losses.append(np.full((self.plan.steps - self.end, *losses.shape[1:]), np.nan, losses.dtype))
            record.steps = self.plan.steps
        if record.steps == self.plan.next_mark(begin) or self.done:
            self.make_whole()
            for step in self.plan.snapshots:
                if begin < step <= record.steps:
                    record.snapshots[step] = record.state.params
        # The first piece's time includes compiling, so the second piece is short, too; then the length fits. All
        # processes take the first one's number, since they have to stop at the same steps.
        pace = (time.perf_counter() - self.began) / (self.end - begin)
        self.piece = number_of_first(min(PIECE, max(1, int(seconds / pace))))
        return record.steps - begin

    def make_whole(self) -> None:
        """Copy the state from the devices into the record."""
        self.record.state = self._merged(self.record.stopped >= 0, self.last_good, self._on_host(self.state))

    def store(self) -> None:
        """Add what is new to the checkpoint, if there is one; only the first process writes."""
        if self.plan.store is not None and jax.process_index() == 0:
            self.record.store(self.plan.store, self.number)

    def watch(self) -> None:
        """Show the callback the losses since the last time; all processes follow the first one's answer."""
        losses = np.concatenate(self.record.losses)[self.seen :]
        self.seen = self.record.steps
        answer = self.plan.watch is not None and self.plan.watch(self.number, self.record, losses)
        self.record.ended = bool(number_of_first(bool(answer)))

    def _stop_what_is_not_finite(self, losses: np.ndarray, finite: np.ndarray, begin: int) -> None:
        """Hold each unit whose loss is no longer finite at its last good state; its losses from there on are NaN."""
        record, units = self.record, self.group.units
        good = np.isfinite(losses).reshape(len(losses), *units, -1).all(-1)
        # An update that breaks the parameters shows in the loss of the next step only, which may be the next piece's.
        good = np.concatenate([good, finite[None]])
        new = ~good.all(0) & (record.stopped < 0)
        first = begin + np.argmin(good, 0)
        for step in np.unique(first[new]):
            # The step before had a finite loss, and so its parameters were good: repeat the steps up to there. If this
            # step is the first of its piece, that takes the state at the beginning of the piece before.
            state, start = (self.state, begin) if step > begin else self.previous
            last = max(int(step) - 1, start)
            if last > start:
                state = run_steps(state, self.data, self.keys, start, last, program=self.program)[0]
            self.last_good = self._merged(new & (first == step), self._on_host(state), self.last_good)
        record.stopped = np.where(new, first, record.stopped)
        late = begin + np.arange(len(losses)).reshape(-1, *[1] * len(units)) >= record.stopped[None]
        losses[late & (record.stopped >= 0)[None]] = np.nan

    def _on_host(self, state: State) -> State:
        units = self.group.units
        return jax.tree.map(lambda leaf: fetch(leaf, units if self.program.over_runs(leaf) else units[:1]), state)

    def _merged(self, mask: np.ndarray, these: State, others: State) -> State:
        """For units in the mask the entries of ``these``, else of ``others``."""
        if not mask.any():
            return others

        def merged(this, other):
            if self.group.runs is not None and not self.program.over_runs(this):
                return other  # a counter that all runs of a seed share
            return np.where(mask.reshape(mask.shape + (1,) * (np.ndim(this) - mask.ndim)), this, other)

        return jax.tree.map(merged, these, others)


def advance(groups: Sequence[Group], plan: Plan) -> list[GroupRecord]:
    """Train each group up to ``plan.steps`` from where it is; groups that leave devices free run side by side.

    Raises:
        ValueError: on every process, if the stored state is beyond the plan or the processes have different ones.
        Preempted: if the process was told to end; the state is stored first.
    """
    plan.agree()
    store = plan.store
    records = [group.record for group in groups]
    if store:
        records = [record.restored(kept) for record, kept in zip(records, store.load(len(groups)), strict=True)]
    for record in records:
        plan.check(record)
    progress = Progress(plan.steps * len(groups), done=sum(record.steps for record in records))
    seconds = _BAR_SECONDS if progress.shown else _PIECE_SECONDS
    waiting = [number for number, record in enumerate(records) if record.steps < plan.steps]
    for number in set(range(len(groups))) - set(waiting):
        if plan.steps in plan.snapshots:
            records[number].snapshots[plan.steps] = records[number].state.params
    active: list[_Job] = []
    free, used = list(jax.devices()), set()
    with closing(progress), Notice(listen=store is not None) as notice:
        while waiting or active:
            for number in list(waiting):
                rows, columns = grid(*groups[number].lots, jax.device_count(), every=jax.process_count() > 1)
                if rows * columns <= len(free):
                    waiting.remove(number)
                    active.append(_Job(number, groups[number], records[number], plan, free[: rows * columns]))
                    free = [device for device in free if device not in active[-1].devices]
                    used |= set(active[-1].devices)
            for job in active:
                job.launch()
            for job in active:
                progress.add(job.collect(seconds))
                if plan.is_watched(job.record.steps):
                    job.watch()
                if plan.is_stored(job.record.steps) or job.done:
                    job.store()
            if notice.heard():
                _end(active, plan)
            free += [device for job in active if job.done for device in job.devices]
            active = [job for job in active if not job.done]
    log.info("trained on %d of %d devices", len(used), jax.device_count())
    return records


def _end(active: list[_Job], plan: Plan) -> None:
    """Store the state of all groups, and end the process."""
    for job in active:
        job.make_whole()
        job.store()
    stored = f"stored in {plan.store.path}" if plan.store else "nothing is stored"
    log.warning("told to end at step %s: %s", ", ".join(str(job.record.steps) for job in active), stored)
    raise Preempted
