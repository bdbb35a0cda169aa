"""Which verdicts are planted, in which versions of NCCL they can be told, and jobs of them by name."""

import functools

import planted_verdicts as plant
from job_model import Job
from nccl_shapes import number

VERSIONS = ["2.4.8", "2.8.4", "2.12.12", "2.18.3", "2.22.3", "2.24.3", "2.26.5", "2.28.9", "2.30.7"]

# Name: (how to plant it, the oldest version whose logs can tell it).
PLANTS = {
    "ok": (plant.ok, "2.4.8"),
    "hw_fault_ib": (plant.hw_fault_ib, "2.4.8"),
    "hw_fault_xid": (plant.hw_fault_xid, "2.4.8"),
    "host_unreachable": (plant.host_unreachable, "2.4.8"),
    "process_dead": (plant.process_dead, "2.4.8"),
    "resource_shm": (plant.resource_shm, "2.4.8"),
    "config_version": (plant.config_version, "2.24.3"),  # before, only rank 0 told its version
    "config_env": (plant.config_env, "2.4.8"),
    "init_not_joined": (plant.init_not_joined, "2.18.3"),  # Init START
    "init_stuck_bootstrap": (functools.partial(plant.init_stuck, stage="start"), "2.18.3"),
    "init_stuck_connect": (functools.partial(plant.init_stuck, stage="connecting"), "2.18.3"),
    "init_stuck_trees": (functools.partial(plant.init_stuck, stage="rings"), "2.18.3"),
    "arg_mismatch_count": (functools.partial(plant.arg_mismatch, field="count"), "2.4.8"),
    "arg_mismatch_dtype": (functools.partial(plant.arg_mismatch, field="dtype"), "2.4.8"),
    "arg_mismatch_op": (functools.partial(plant.arg_mismatch, field="redop"), "2.4.8"),
    "arg_mismatch_root": (functools.partial(plant.arg_mismatch, field="root"), "2.4.8"),
    "order_swapped": (plant.order_swapped, "2.4.8"),
    "order_cycle": (functools.partial(plant.order_cycle, both_logged=False), "2.16.5"),  # commId tells them apart
    "order_cycle_logged": (functools.partial(plant.order_cycle, both_logged=True), "2.16.5"),
    "rank_lagging": (functools.partial(plant.rank_lagging, behind=1, torch=False), "2.4.8"),
    "rank_lagging_far": (functools.partial(plant.rank_lagging, behind=3, torch=False), "2.4.8"),
    "rank_lagging_torch": (functools.partial(plant.rank_lagging, behind=1, torch=True), "2.4.8"),
    "stuck_inside": (plant.stuck_inside, "2.4.8"),
    "slow_not_hung": (plant.slow_not_hung, "2.4.8"),
    "unknown_victim": (plant.unknown_victim, "2.4.8"),
    "unknown_few": (plant.unknown_few, "2.18.3"),
}


def can_tell(name, version):
    return number(version) >= number(PLANTS[name][1])


def make(name, version, nranks, seed=1, **how):
    """The job of that name; `how`: see job_model.Job."""
    return PLANTS[name][0](Job(version, nranks, seed, **how))
