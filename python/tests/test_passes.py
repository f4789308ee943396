"""Passes in Python: loaded, checked, compared; wrong ones refused with the violated rule."""

import os
import re
import subprocess
import sys
import threading

import numpy
import pytest

import kodama
from conftest import ROOT, make_small_model

PROBLEM = kodama.ScheduleProblem(
    name="x * y + s",
    resources=(kodama.Resource("load"), kodama.Resource("mau"), kodama.Resource("alu")),
    operations=(kodama.Operation("load x", uses=(kodama.Use(0),)), kodama.Operation("load y", uses=(kodama.Use(0),)),
                kodama.Operation("product", uses=(kodama.Use(1),)), kodama.Operation("sum", uses=(kodama.Use(2),))),
    dependences=(kodama.Dependence(0, 2, 3), kodama.Dependence(1, 2, 3), kodama.Dependence(2, 3, 3)))


def command(*arguments, **kwargs):
    return subprocess.run([sys.executable, "-m", "kodama", *map(os.fspath, arguments)], capture_output=True, text=True,
                          **kwargs)


def test_problems_as_objects(tmp_path):
    assert kodama.ScheduleProblem.from_json(PROBLEM.to_json()) == PROBLEM
    file = tmp_path / "p.json"
    file.write_text(PROBLEM.to_json())
    assert kodama.ScheduleProblem.read(file) == PROBLEM
    assert PROBLEM.fault([0, 1, 4, 7]) == ""
    assert "dependence" in PROBLEM.fault([0, 1, 3, 7])
    assert "load" in PROBLEM.fault([0, 0, 4, 7])
    assert "product" in PROBLEM._repr_html_()
    for text in ("{", "{}}", '{"operations": 3}', '{"dependences": [{"from": 5, "to": 0, "distance": 1}]}'):
        file.write_text(text)
        with pytest.raises(kodama.UserError, match="p.json"):
            kodama.ScheduleProblem.read(file)


def test_schedule():
    found = kodama.schedule(PROBLEM)
    assert found.length == found.bound == 8 and found.issue[2:] == [4, 7] and found.optimal
    assert "product" in found.draw() and "8 steps" in found._repr_html_()
    assert kodama.schedule(PROBLEM, "exact").length == 8
    with pytest.raises(kodama.UserError, match="found scheduler 'none', allowed: "):
        kodama.schedule(PROBLEM, "none")
    with pytest.raises(kodama.UserError, match="no-such-option"):
        kodama.schedule(PROBLEM, no_such_option=1)


def test_list_scheduler_is_loaded_checked_and_compared(examples):
    """A list scheduler in 60 lines, by the same command line that has the others."""
    file = examples / "list_scheduler.py"
    assert len(file.read_text().splitlines()) <= 60
    listed = command("passes", "--plugin", file)
    assert "mine" in listed.stdout and "mine-urgency" in listed.stdout, listed
    found = command("bench", "schedule", "--plugin", file, "--random", "40", "--scheduler", "mine", "--scheduler",
                    "sequential")
    assert found.returncode == 0, found.stderr
    steps = {name: int(number) for name, number in re.findall(r"^  (\w+) +(\d+)", found.stdout, re.M)}
    assert steps["mine"] < steps["sequential"]
    # An option of the function's, and a wrong value for it.
    one = next((ROOT / "testsuite" / "schedule").glob("*.json"))
    for value, code in (("source", 0), ("none", 2)):
        found = command("bench", "schedule", "--plugin", file, "--random", "2", "--dir", one.parent, "--scheduler", "mine",
                        "--pass-option", f"mine-urgency={value}")
        assert found.returncode == code, (found.stdout, found.stderr)
    assert "option mine-urgency: found 'none', allowed: path, source" in found.stderr


def test_its_bad_twin_is_refused_with_the_violated_rule(examples, tmp_path):
    text = (examples / "list_scheduler.py").read_text()
    bad = tmp_path / "bad.py"
    bad.write_text(text.replace("issue[edge.from_] + edge.distance <= step", "issue[edge.from_] <= step"))
    assert bad.read_text() != text
    found = command("bench", "schedule", "--plugin", bad, "--scheduler", "mine")
    assert found.returncode == 70
    assert re.search(r"scheduler 'mine' of plugin .*bad.py is at fault: its schedule of '.*' is wrong: dependence: "
                     r"operation \d+ .* must be \d+ steps after", found.stderr), found.stderr


def test_wrong_plugin_files(tmp_path, examples):
    for name, text, message in [("empty.py", "", "registers no pass"), ("syntax.py", "def", "SyntaxError"),
                                ("raises.py", "1 / 0", "ZeroDivisionError: division by zero .*raises.py, line 1"),
                                ("exits.py", "raise SystemExit(3)", "")]:
        (tmp_path / name).write_text(text)
        found = command("passes", "--plugin", tmp_path / name)
        assert found.returncode != 0 and re.search(message, found.stderr), (name, found)
    found = command("passes", "--plugin", tmp_path / "nothing.py")
    assert found.returncode == 2 and "found no such file" in found.stderr


def test_function_is_a_scheduler():
    calls = []

    @kodama.scheduler("in-order")
    def in_order(problem, *, gap=1, twice=False):
        "one operation after the other"
        calls.append((gap, twice))
        return [4 * k * gap for k in range(len(problem.operations))]

    assert kodama.schedule(PROBLEM, "in-order").issue == [0, 4, 8, 12]
    assert kodama.schedule(PROBLEM, "in-order", in_order_gap=2, in_order_twice=True).issue == [0, 8, 16, 24]
    assert calls == [(1, False), (2, True)]
    with pytest.raises(kodama.UserError, match="option in-order-gap: found 'x', allowed: whole numbers"):
        kodama.schedule(PROBLEM, "in-order", in_order_gap="x")
    with pytest.raises(kodama.UserError, match="in-order-no"):
        kodama.schedule(PROBLEM, "in-order", in_order_no=1)
    assert in_order(PROBLEM) == [0, 4, 8, 12]  # a plain function still

    @kodama.scheduler("in-order")  # as a cell of a notebook that runs again
    def better(problem):
        return numpy.array([0, 1, 4, 7])

    assert kodama.schedule(PROBLEM, "in-order").length == 8
    with pytest.raises(kodama.UserError, match="a second scheduler 'list' .the first is Kodama's own"):
        kodama.scheduler("list")(better)


@pytest.mark.parametrize("answer, message", [
    ([0, 1, 3, 7], "is at fault: its schedule of 'x . y . s' is wrong: dependence: operation 2"),
    ([0, 0, 4, 7], "wrong: .*load"),
    ([0, 1, 4], "is at fault"),
    ([0, 1, 4, 7, 8], "is at fault"),
    ([-1, 1, 4, 7], "is at fault"),
    ([0, 1, 4, 2**63 - 1], "is at fault"),
    ([0, 1, 4, 2**70], "is at fault"),
    ([0, 1, 4.5, 7], "TypeError|AttributeError"),
    (None, "TypeError: found None; allowed: a row of whole numbers"),
    ("0147", "TypeError"),
    ({}, "is at fault"),
])
def test_wrong_answers(answer, message):
    @kodama.scheduler("wrong")
    def wrong(problem):
        return answer

    with pytest.raises(kodama.PassError, match=message) as caught:
        kodama.schedule(PROBLEM, "wrong")
    assert "scheduler 'wrong' of plugin " in str(caught.value)


def test_exceptions_in_a_pass():
    @kodama.scheduler("raises")
    def raises(problem):
        return {}["no such key"]

    with pytest.raises(kodama.PassError, match="it throws: KeyError: 'no such key' .*test_passes.py, line") as caught:
        kodama.schedule(PROBLEM, "raises")
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__cause__.__traceback__ is not None

    @kodama.scheduler("raises")
    def interrupts(problem):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kodama.schedule(PROBLEM, "raises")

    @kodama.scheduler("raises")
    def cannot(problem):
        raise kodama.UnsupportedError("blocks of four operations; instead, use list")

    with pytest.raises(kodama.UnsupportedError, match="^blocks of four operations; instead, use list$"):
        kodama.schedule(PROBLEM, "raises")


def test_passes_in_passes():
    @kodama.scheduler("outer")
    def outer(problem):
        return kodama.schedule(problem, "list").issue

    assert kodama.schedule(PROBLEM, "outer").length == 8

    @kodama.scheduler("outer")
    def registers(problem):
        kodama.scheduler("inner")(outer)

    with pytest.raises(kodama.UserError, match="a pass is registered by a pass that runs"):
        kodama.schedule(PROBLEM, "outer")


def test_wrong_declarations():
    with pytest.raises(kodama.UserError, match="a pass needs a name"):
        kodama.scheduler("")(lambda problem: [])
    with pytest.raises(kodama.UserError, match="found option 'x' with the default None"):
        @kodama.scheduler("declared")
        def declared(problem, *, x=None):
            pass


def test_threads_in_passes():
    @kodama.scheduler("slow")
    def slow(problem):
        return kodama.schedule(problem).issue

    found = []
    threads = [threading.Thread(target=lambda: found.append(kodama.schedule(PROBLEM, "slow").length)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for k in range(10):  # and passes are registered meanwhile
        kodama.scheduler(f"other-{k}")(slow)
    for thread in threads:
        thread.join()
    assert found == [8] * 4


def test_loop_scheduler():
    loop = kodama.ScheduleProblem(name="loop", loop=True, resources=PROBLEM.resources, operations=PROBLEM.operations,
                                  dependences=PROBLEM.dependences + (kodama.Dependence(3, 3, 3, 1),))

    @kodama.scheduler("my-loops", blocks=False, loops=True)
    def my_loops(problem):
        return kodama.Schedule([0, 1, 4, 7], interval=8)

    assert kodama.schedule(loop, "my-loops").interval == 8
    assert kodama.schedule(loop).length == 3
    with pytest.raises(kodama.UserError, match="found scheduler"):
        kodama.schedule(PROBLEM, "my-loops")


def test_passes_of_a_compilation():
    """Every kind of pass in a compilation, each called and checked."""
    model, w, b = make_small_model()
    x = numpy.ones((2, 8), numpy.float32)
    called = set()

    @kodama.scheduler("counted")
    def counted(problem):
        called.add("scheduler")
        return kodama.schedule(problem).issue

    @kodama.planner("first-one")
    def first_one(problem, *, tries=2):
        "the first candidates, and whatever is cheaper with one change"
        called.add("planner")
        best = [0] * len(problem.nodes)
        for node in range(len(problem.nodes)):
            for candidate in range(min(tries, len(problem.nodes[node].candidates))):
                choice = best[:node] + [candidate] + best[node + 1:]
                if problem.cost(choice) < problem.cost(best):
                    best = choice
        for number, tensor in enumerate(problem.tensors):
            assert problem.at_least(number, 0, 0) <= problem.conversion(number, 0, 0) == 0
        return best

    @kodama.packer("end-to-end")
    def end_to_end(problem):
        called.add("packer")
        offsets, at = [], 0
        for buffer in problem["buffers"]:
            alignment = buffer.get("alignment", 1)
            at = -(-at // alignment) * alignment
            offsets.append(at)
            at += buffer["size"]
        return offsets

    @kodama.transfer_scheduler("nothing-ahead")
    def nothing_ahead(problem):
        called.add("transfers")
        return None  # the buffers don't fit: programs stay as they are

    @kodama.graph_pass("look")
    def look(network):
        called.add("graph")

    compiled = kodama.compile(model, chip="tiny", scheduler="counted", planner="first-one", transfers="nothing-ahead",
                              first_one_tries=3)
    assert numpy.allclose(compiled(x), numpy.maximum(x @ w + b, 0), atol=1e-3)
    assert called == {"scheduler", "planner", "transfers", "graph"}

    @kodama.graph_pass("look")
    def damage(network):
        network.graph.node[0].op_type = "Relu"

    with pytest.raises(kodama.PassError, match="graph pass 'look' of plugin"):
        kodama.compile(model, chip="tiny")

    @kodama.graph_pass("look")
    def nothing(network):
        pass

    @kodama.planner("first-one")
    def wrong_plan(problem):
        return [10**6] * len(problem.nodes)

    with pytest.raises(kodama.PassError, match="planner 'first-one' .* found candidate 1000000 of node"):
        kodama.compile(model, chip="tiny", planner="first-one")

    kept = []

    @kodama.planner("first-one")
    def keeps(problem):
        kept.append(problem)
        return [0] * len(problem.nodes)

    kodama.compile(model, chip="tiny", planner="first-one")
    with pytest.raises(kodama.UserError, match="after its planner has ended"):
        kept[0].cost([0])

    packed = kodama.pack({"name": "p", "capacity": 100, "buffers": [
        {"name": "a", "lower": 0, "upper": 3, "size": 40}, {"name": "b", "lower": 1, "upper": 4, "size": 40}]},
        "end-to-end")
    assert packed["status"] == "solved" and packed["offsets"] == {"a": 0, "b": 40} and "packer" in called

    @kodama.packer("end-to-end")
    def on_top(problem):
        return [0] * len(problem["buffers"])

    with pytest.raises(kodama.PassError, match="overlap"):
        kodama.pack({"name": "p", "capacity": 100, "buffers": [
            {"name": "a", "lower": 0, "upper": 3, "size": 40}, {"name": "b", "lower": 1, "upper": 4, "size": 40}]},
            "end-to-end")


def test_bench_in_python():
    table = kodama.bench_schedule(["list", "sequential"], directory="", random=10)
    assert "10 problems" in table and "sequential" in table


def test_plugin_that_is_a_library(tmp_path, examples):
    with pytest.raises(kodama.UserError, match="found no such file"):
        kodama.load_plugin(tmp_path / "nothing.so")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(kodama.UserError, match="no 64-bit shared library"):
        kodama.load_plugin(tmp_path / "text.so")
