"""kodama.sweep, on this machine and on a cluster of dask's."""

import os
import signal

import numpy
import pytest

import kodama

SETS = {"memory.l2bm_lw": [16384, 32768], "planner": ["greedy", "first"]}


def compiled_cycles(model, sets):
    chosen = {key: value for key, value in sets.items()}
    chip = f"tiny,memory.l2bm_lw={chosen['memory.l2bm_lw']}"
    compiled = kodama.compile(model, chip=chip, planner=chosen["planner"])
    return compiled.run(numpy.ones((2, 8), numpy.float32)).cycles


def test_rows(small_model):
    model, _, _ = small_model
    rows = kodama.sweep(model, SETS, chip="tiny", jobs=2)
    assert [(row["memory.l2bm_lw"], row["planner"]) for row in rows] == [
        (16384, "greedy"), (16384, "first"), (32768, "greedy"), (32768, "first")]
    for row in rows:
        assert row["problem"] == "" and row["cycles"] == compiled_cycles(model, row)
    assert rows.columns == ["memory.l2bm_lw", "planner", "cycles", "first_cycles", "seconds", "problem"]


def test_a_combination_that_cannot_be(small_model, tmp_path):
    model, _, _ = small_model
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    rows = kodama.sweep(path, {"counts.groups": [2, 3]}, {"x": numpy.ones((2, 8), numpy.float32)}, chip="tiny", jobs=1)
    assert rows[0]["cycles"] > 0 and rows[1]["cycles"] is None and "power of two" in rows[1]["problem"]


@pytest.mark.parametrize("sets", [{}, {"planner": []}, {"memory.l3_lw": [1]}])
def test_wrong_ones(small_model, sets):
    with pytest.raises(kodama.UserError, match="sets: "):
        kodama.sweep(small_model[0], sets, chip="tiny")


def test_a_worker_that_dies(small_model):
    """One of two workers is killed while it has work; the other one does it."""
    distributed = pytest.importorskip("distributed")
    model, _, _ = small_model
    sets = {"clock_hz": [700e6 + 1e6 * k for k in range(12)]}
    expected = kodama.sweep(model, sets, chip="tiny", jobs=1)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, \
            distributed.Client(cluster) as client:
        processes = client.run(os.getpid)
        assert len(set(processes.values())) == 2

        class KillsAWorker:
            """The client, which when all work is handed in kills a worker that has some."""

            submit = staticmethod(client.submit)

            def gather(self, started):
                has_work = [address for address, keys in client.processing().items() if keys]
                os.kill(processes[has_work[0]], signal.SIGKILL)
                return client.gather(started)

        assert kodama.sweep(model, sets, chip="tiny", client=KillsAWorker()) == expected
        assert set(client.run(os.getpid).values()) != set(processes.values())
