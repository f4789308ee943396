"""kodama.asm, dis, simulate, Machine, and errors as exceptions."""

import json
import threading

import numpy
import pytest

import kodama

PROGRAM = """d set $lm0n0c0b0m0p0 1 0000000000000029
linc $lm0 $ln0
d get $ln0n0c0b0m0p0 1
"""


def test_asm_and_its_text():
    program = kodama.asm(PROGRAM, "tiny")
    assert (program.steps, program.nops, program.mvs, program.chip) == (1, 0, 0, "tiny")
    again = kodama.asm(str(program), "tiny")
    assert str(again) == str(program)
    assert "1 steps" in repr(program)


def test_forms(tmp_path):
    program = kodama.asm("linc $lm0v $ln0v\nnop/3\n", "tiny")
    for form in ("text", "binary"):
        program.save(tmp_path / form, form)
        assert str(kodama.dis(tmp_path / form, "tiny")) == str(program)
    with pytest.raises(kodama.UnsupportedError, match="write the program as text or in the binary format"):
        program.to_bytes("words")
    assert kodama.asm("nop\n", "tiny").to_bytes("words")
    with pytest.raises(kodama.UserError, match="found 'hex', allowed: text, words, binary"):
        program.to_bytes("hex")


def test_errors_have_the_text_of_the_command_line():
    with pytest.raises(kodama.UserError) as caught:
        kodama.asm("nop\nfoo $lm0 $ln0\nbar\n", "tiny", file="a.vsm")
    assert isinstance(caught.value, ValueError) and isinstance(caught.value, kodama.Error)
    assert len(caught.value.messages) == 2
    assert caught.value.messages[0].startswith("a.vsm:2:1: ")
    assert str(caught.value) == "\n".join(caught.value.messages)
    with pytest.raises(kodama.UserError, match="no chip is named 'huge'; allowed: "):
        kodama.asm("nop", "huge")
    with pytest.raises(kodama.UserError, match="nothing.vsm"):
        kodama.dis("nothing.vsm")


def test_classes_of_errors():
    assert issubclass(kodama.UserError, ValueError)
    assert issubclass(kodama.UnsupportedError, NotImplementedError)
    assert issubclass(kodama.InternalError, RuntimeError)
    assert issubclass(kodama.PassError, kodama.InternalError)
    assert all(issubclass(each, kodama.Error) for each in (
        kodama.UserError, kodama.UnsupportedError, kodama.InternalError, kodama.CancelledError))


def test_strange_texts():
    assert kodama.asm("", "tiny").steps == 0
    for text in ("\0", "\xff", "nop " + "9" * 400, "x" * 100_000, "<script>alert(1)</script>"):
        with pytest.raises(kodama.UserError):
            kodama.asm(text, "tiny")
    with pytest.raises(TypeError):
        kodama.asm(3)


def test_simulate():
    result = kodama.simulate(PROGRAM, "tiny")
    assert (result.cycles, result.steps, result.nops, result.mvs) == (4, 1, 0, 0)
    assert result.causes["steps"] == 4
    assert len(result.dump) == 1 and "0x2A" in result.dump[0]
    assert int(result.machine.read("LM1", 0)[0]) == 0x2A
    assert result.seconds == pytest.approx(4 / 750e6)
    assert "cycles" in result._repr_html_()


def test_chip_of_a_program():
    program = kodama.asm("nop\n", "tiny")
    assert kodama.simulate(program).machine.chip == "tiny"
    with pytest.raises(kodama.UserError, match="a program for chip tiny"):
        kodama.Machine("mncore1").run(program)


def test_memories():
    machine = kodama.Machine("tiny", threads=1)
    data = numpy.arange(100, dtype=numpy.uint64)
    machine.write("DRAM", 1000, data)
    assert (machine.read("dram", 1000, 100) == data).all()
    assert (machine.read("DRAM", 1000, 100, group=1) == 0).all()
    machine.write("LM0", 2, numpy.array([1.5, 2.5], numpy.float32), pe=3)
    word = int(machine.read("LM0", 2, 1, pe=3)[0])
    assert numpy.array([word], numpy.uint64).view(numpy.float32).tolist() == [1.5, 2.5]
    assert machine.size("LM0") == 4096
    assert machine.read("DRAM", 0, 0).size == 0
    for memory, address, count, message in [
            ("LM7", 0, 1, "memory: found 'LM7', allowed: LM0"), ("DRAM", -1, 1, ""), ("DRAM", 2**40, 1, ""),
            ("DRAM", 0, 2**40, ""), ("LM0", 1, 1, ""), ("DRAM", 0, -1, "count -1")]:
        with pytest.raises(kodama.UserError, match=message):
            machine.read(memory, address, count)
    with pytest.raises(kodama.UserError, match="4 bytes"):
        machine.write("DRAM", 0, numpy.float32(1))
    with pytest.raises(kodama.UserError):
        machine.read("LM0", 0, 1, pe=4)


def test_dirty_memories_are_the_same_for_the_same_seed():
    words = [kodama.Machine("tiny", memory="dirty", seed=seed).read("DRAM", 0, 8).tolist() for seed in (7, 7, 8)]
    assert words[0] == words[1] != words[2]
    with pytest.raises(kodama.UserError, match="found 'clean', allowed: zero, dirty"):
        kodama.Machine("tiny", memory="clean")


def test_hazards():
    program = kodama.asm("linc $lm0v $ln0v\nlinc $ln0v $lm8v\n", "tiny")
    found = program.hazards()
    assert found and found[0].startswith("line 2: ")
    with pytest.raises(kodama.UserError, match="hazard"):
        kodama.simulate(program, hazards="error")
    assert kodama.simulate(program, hazards="stall").cycles > 8
    with pytest.raises(kodama.UserError, match="allowed: ignore, error, stale, stall"):
        kodama.simulate(program, hazards="none")


def test_reports(tmp_path):
    result = kodama.simulate(PROGRAM, "tiny", statistics=True, trace=tmp_path / "t.json", vcd=tmp_path / "t.vcd")
    assert result.statistics["total"]["steps"] == 1 if "total" in result.statistics else result.statistics
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert (tmp_path / "t.vcd").stat().st_size > 0
    with pytest.raises(kodama.UserError, match="only with timing"):
        kodama.simulate(PROGRAM, "tiny", timing=False, statistics=True)


def test_nothing_of_a_text_is_markup():
    program = kodama.asm("d get $ln0n0c0b0m0p0 1  # <b>&\"\n", "tiny")
    assert "<b>&" not in program._repr_html_().replace("<b>kodama", "")
    assert "<b>&" not in kodama.simulate(program)._repr_html_()


def test_chips():
    assert {"mncore2", "tiny"} <= set(kodama.chips())
    chip = kodama.chip("tiny")
    assert (chip["groups"], chip["pe_per_mab"], chip["clock_hz"]) == (2, 4, 750e6)
    assert kodama.chip("tiny,clock_hz=1e9")["clock_hz"] == 1e9


def test_two_threads_simulate_at_once():
    text = "nop/1000\n" * 50 + PROGRAM
    cycles = {}

    def work(number):
        cycles[number] = kodama.simulate(text, "tiny", threads=1).cycles

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cycles[0] == cycles[1] == 50_000 * 4 + 4
