"""Collectives and copies: ring arithmetic, links, bridges, networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.catalog import custom_gpu, gpu, gpus
from planner.formulas.communication import (
    EXPOSED,
    all_gather_seconds,
    all_reduce_seconds,
    bus_bytes_per_second,
    host_copy_seconds,
    reduce_scatter_seconds,
)

GB = 10**9
H100, A100_PCIE, L40S = gpu("h100-80gb"), gpu("a100-80gb-pcie"), gpu("l40s")


def test_rings_by_hand():
    # 8 GPUs on 80 % of 450 GB/s a direction; 7/8 of the bytes pass, 13.6 us on top.
    once = 7 / 8 * 8 * GB / (0.8 * 450 * GB) + 13.6e-6
    sizes = {"size_bytes": 8 * GB, "ranks": 8, "gpus_per_node": 8}
    assert all_gather_seconds(H100, **sizes) == pytest.approx(once)
    assert reduce_scatter_seconds(H100, **sizes) == pytest.approx(once)
    assert all_reduce_seconds(H100, **sizes) == pytest.approx(2 * once - 13.6e-6)


def test_one_rank_talks_to_nobody():
    assert all_reduce_seconds(H100, size_bytes=GB, ranks=1, gpus_per_node=8) == 0


def test_nodes_meet_over_their_network_cards():
    # One GPU per node has one 400 Gb/s card; eight per node have eight, which reach 340 GB/s.
    alone = bus_bytes_per_second(H100, ranks=2, gpus_per_node=1)
    together = bus_bytes_per_second(H100, ranks=16, gpus_per_node=8)
    assert alone == pytest.approx(0.85 * 50 * GB)
    assert together == pytest.approx(0.85 * 400 * GB)
    assert together < bus_bytes_per_second(H100, ranks=8, gpus_per_node=8)


def test_a_bridge_joins_two_cards_only():
    pair = bus_bytes_per_second(A100_PCIE, ranks=2, gpus_per_node=8)
    four = bus_bytes_per_second(A100_PCIE, ranks=4, gpus_per_node=8)
    assert pair == pytest.approx(0.8 * 300 * GB)
    assert four == pytest.approx(0.63 * 31.5 * GB)
    assert bus_bytes_per_second(L40S, ranks=2, gpus_per_node=8) == four


def test_host_copies_by_hand():
    assert host_copy_seconds(H100, size_bytes=63 * GB) == pytest.approx(1 / 0.8)
    assert host_copy_seconds(L40S, size_bytes=63 * GB) == pytest.approx(2 / 0.8)


def test_unknown_links_give_no_time():
    unknown = custom_gpu(80 * GB)
    sizes = {"size_bytes": GB, "ranks": 2, "gpus_per_node": 8}
    assert all_gather_seconds(unknown, **sizes) is None
    assert all_reduce_seconds(unknown, **sizes) is None
    assert host_copy_seconds(unknown, size_bytes=GB) is None
    assert host_copy_seconds(gpu("gb200-186gb"), size_bytes=GB) is None
    assert all_gather_seconds(replace(A100_PCIE, pcie=None), **sizes) is None


def test_only_what_outlasts_computation_is_waited_for():
    seconds = EXPOSED(communication_seconds=3.0, compute_seconds=2.0)
    assert seconds == 1.0
    assert EXPOSED(communication_seconds=1.0, compute_seconds=2.0) == 0


RANKS = st.integers(1, 512)


@given(st.sampled_from(gpus()), st.integers(1, 10**12), st.integers(1, 10**12), RANKS)
def test_more_bytes_never_take_less_time(card, size, more, ranks):
    def seconds(size):
        return all_reduce_seconds(card, size_bytes=size, ranks=ranks, gpus_per_node=8)

    if seconds(size) is not None:
        assert seconds(size + more) >= seconds(size)


@given(st.sampled_from([H100, A100_PCIE, L40S]), st.lists(RANKS, min_size=1, max_size=6))
def test_an_array_gives_what_each_number_gives(card, ranks):
    def seconds(ranks):
        return all_gather_seconds(card, size_bytes=GB, ranks=ranks, gpus_per_node=8)

    together = seconds(np.array(ranks, dtype=np.int64))
    assert together.tolist() == pytest.approx([seconds(one) for one in ranks])
