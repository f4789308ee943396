"""kodama.Layout, drawing, conversions."""

import xml.etree.ElementTree

import pytest

import kodama
from kodama import Layout, Place

ROWS = "((4_PE:1), (6:1))@LM0"
BLOCKS = "((2_PE:2, 2:3), (2_PE:1, 3:1))@LM0"


def test_where_elements_are():
    rows = Layout(ROWS)
    assert str(rows) == ROWS and repr(rows) == f"Layout('{ROWS}')"
    assert rows.shape == (4, 6) and rows.memory == "LM0" and rows.padding == "zero"
    assert rows.where(2, 5) == [Place(pe=2, address=5)]
    for i in range(4):
        for j in range(6):
            place, = rows.where(i, j)
            assert rows.element(place) == (i, j)
    assert rows.element(Place(pe=3, address=6)) is None
    assert Layout("((4_PE:1), (6:1)) x [4_MAB]@LM0").where(0, 0) == [Place(mab=k) for k in range(4)]


@pytest.mark.parametrize("index", [(4, 0), (0, 6), (-1, 0), (0,), (0, 0, 0), ()])
def test_index_outside(index):
    with pytest.raises(kodama.UserError, match=r"allowed are 2 numbers from 0 on below \(4, 6\)"):
        Layout(ROWS).where(*index)


@pytest.mark.parametrize("text", ["", "((", "((4_XX:1))@LM0", "((4_PE:1))@LM9", "((0_PE:1))@LM0", "<b>", "é" * 1000],
                         ids=range(7))
def test_wrong_notation(text):
    with pytest.raises(kodama.UserError):
        Layout(text)


def test_algebra():
    rows, blocks = Layout(ROWS), Layout(BLOCKS)
    assert rows == Layout(ROWS) and rows != blocks and hash(rows) == hash(Layout(ROWS))
    assert str(rows.transposed([1, 0])) == "((6:1), (4_PE:1))@LM0"
    assert str(rows.reshaped([4, 2, 3])) == "((4_PE:1), (2:3), (3:1))@LM0"
    assert "axis 0: index 1 is at PE 1 on the left" in rows.why_incompatible(blocks)
    assert rows.why_incompatible(rows) == ""
    split = Layout("((2_PE:2, 2_PE:1), (6:1))@LM0")
    assert split.equivalent(rows) and str(split.normalized()) == ROWS
    with pytest.raises(kodama.UserError, match="permutation"):
        rows.transposed([0, 0])
    rows.validate("tiny")
    with pytest.raises(kodama.UserError):
        Layout("((8_PE:1), (6:1))@LM0").validate("tiny")


def test_drawings():
    rows = Layout(ROWS)
    text = rows.draw(element="double")
    assert "PE 3" in text and "3,5" in text
    picture = xml.etree.ElementTree.fromstring(rows.svg(element="double"))
    texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert "PE 3" in texts and "3,5" in texts
    assert len(rows.places()) == 24
    # A shape within the layout: what is beyond is padding.
    assert "." in rows.draw([3, 6]) and None in [place["element"] for place in rows.places([3, 6])]
    assert "<svg" in rows._repr_html_()
    assert "and 1048560 more long words" in Layout("((8_L2B:1, 1048576:1))@DRAM")._repr_html_()
    with pytest.raises(kodama.UserError, match="found 'byte', allowed: half"):
        rows.draw(element="byte")
    with pytest.raises(kodama.UserError):
        rows.draw([5, 6])


def test_conversion():
    found = kodama.convert(ROWS, BLOCKS, [4, 6], "double", "tiny")
    assert found.cycles >= found.bound > 0 and found.path and found.steps > 0
    assert kodama.asm(found.program, "tiny").steps == found.steps
    assert kodama.conversion_bound(ROWS, BLOCKS, [4, 6], "double", "tiny")[0] == pytest.approx(found.bound)
    assert kodama.convert(Layout(ROWS), Layout(ROWS), [4, 6], chip="tiny").path == []
    with pytest.raises(kodama.UserError):
        kodama.convert(ROWS, BLOCKS, [4, 7], "double", "tiny")
