#!/usr/bin/python3
"""check_report.py KODAMA DIRECTORY CASE [MODEL]: opens the report of a run in headless Chromium.

Cases: `run MODEL` (a file, or the name of a network of tools/zoo.py), `names` (hostile names), `compare MODEL`, `large`
(10,000 layers), `open` (a model that is compiled while it runs). Checked: nothing on the console, no request, every number equal to the JSON's, a click and Enter on a
layer show its Moves, keys, no sideways scrolling at 390 pixels. Screenshots stay in DIRECTORY. Exit code 77: Chromium,
its driver or python3-selenium is missing.
"""
import base64
import copy
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import time

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    print("skipped: no python3-selenium")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDE, NARROW = (1280, 900), (390, 844)
SETTLE = 0.4  # seconds after a change of size


def open_browser():
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not browser or not driver:
        print("skipped: no chromium, or no chromium-driver")
        sys.exit(77)
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--no-first-run", "--disable-background-networking", "--force-device-scale-factor=1"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chrome = webdriver.Chrome(service=Service(driver), options=options)
    chrome.set_page_load_timeout(120)
    chrome.set_script_timeout(120)
    return chrome


def resize(chrome, size):
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False})
    time.sleep(SETTLE)


def load(chrome, page, size=WIDE):
    start = time.monotonic()
    resize(chrome, size)
    chrome.get(page.resolve().as_uri())
    assert chrome.execute_script("return document.documentElement.dataset.ready") == "true", "the page isn't drawn"
    chrome.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return time.monotonic() - start


def check_quiet(chrome, page):
    """Nothing on the console, and nothing asked for but the page itself."""
    log = chrome.get_log("browser")
    assert not log, f"on the console: {log}"
    resources = chrome.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert not resources, f"asked for: {resources}"
    for entry in chrome.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] != "Network.requestWillBeSent":
            continue
        url = message["params"]["request"]["url"]
        assert url.startswith("data:") or url == page.resolve().as_uri(), f"asked for {url}"


def read_back(text, form):
    """The number that a reader sees, in the unit of the JSON."""
    text = text.replace(",", "").replace("\u2212", "-")
    for suffix, factor in ((" %", 0.01), ("\u00d7", 1), (" ms", 1), (" MHz", 1e6), (" kB", 1e3), (" MB", 1e6), (" GB", 1e9),
                           (" TB", 1e12), (" B", 1)):
        if text.endswith(suffix):
            return float(text[:-len(suffix)]) * factor
    return float(text)


TOLERANCE = {"count": 1e-3, "number": 6e-3, "percent": 6e-3, "times": 6e-3, "error": 6e-2, "ms": 1e-3, "signed": 0, "bytes": 1e-3,
             "megahertz": 1e-3}


def check_numbers(chrome, documents):
    """All numbers in the page are those of the JSON. Returns how many."""
    found = chrome.execute_script(
        "return [...document.querySelectorAll('data')].map((e) => [e.dataset.path, e.value, e.textContent, e.dataset.format])")
    for path, value, text, form in found:
        keys = json.loads(path)
        expected = documents
        for key in keys:
            expected = expected[key]
        assert isinstance(expected, (int, float)) and not isinstance(expected, bool), path
        assert float(value) == expected, f"{path}: found {value}, in the JSON {expected}"
        seen = read_back(text, form)
        tolerance = 0 if isinstance(expected, int) and form in ("count", "signed") else TOLERANCE[form]
        assert math.isclose(seen, expected, rel_tol=tolerance, abs_tol=0 if tolerance == 0 else 1e-300), \
            f"{path}: '{text}' for {expected}"
    return len(found)


def check_no_sideways(chrome, where):
    wide, inner = chrome.execute_script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert wide <= inner, f"{where}: the page is {wide} pixels wide, the window {inner}"


def screenshots(chrome, page, name):
    """One of the whole page at each width, and one with the details."""
    for size in (WIDE, NARROW):
        resize(chrome, size)
        time.sleep(0.3)
        height = chrome.execute_script("return document.documentElement.scrollHeight")
        shot = chrome.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True,
            "clip": {"x": 0, "y": 0, "width": size[0], "height": min(height, 9000), "scale": 1}})
        (page.parent / f"{name}.{size[0]}.png").write_bytes(base64.b64decode(shot["data"]))
    resize(chrome, WIDE)


def shown_moves(chrome):
    return [int(item.get_attribute("data-move")) for item in chrome.find_elements(By.CSS_SELECTOR, "#details .move")]


def focused(chrome, attribute):
    return chrome.execute_script("return document.activeElement.getAttribute(arguments[0])", attribute)


def click_row(chrome, index):
    """On the table as it is at first; rows that aren't seen don't exist."""
    chrome.execute_async_script(
        """const [index, done] = arguments;
           const table = document.querySelector('.layers-scroll');
           table.scrollTop = index * table.querySelector('tr[data-stage]').offsetHeight;
           requestAnimationFrame(() => requestAnimationFrame(() => {
             document.querySelector(`#layers tr[data-stage="${index}"] td`).click();
             done();
           }));""", index)


def check_layers(chrome, run, most=12):
    """A click on a row, and Enter, show the layer's Moves."""
    for index in range(min(len(run["stages"]), most)):
        click_row(chrome, index)
        expected = [k for k, move in enumerate(run["moves"]) if move["to"] == index]
        expected += [k for k, move in enumerate(run["moves"]) if move["from"] == index]
        assert shown_moves(chrome) == expected, f"layer {index}: {shown_moves(chrome)}, expected {expected}"
        title = chrome.find_element(By.CSS_SELECTOR, "#details h2").text
        assert title == " ".join(run["stages"][index]["name"].split()) or title == "(no name)", title
        yield


def check_keys(chrome, run):
    body = chrome.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.ESCAPE)
    assert not chrome.find_element(By.ID, "details").is_displayed()
    body.send_keys("/")
    assert focused(chrome, "id") == "filter", "/ goes to the search"
    chrome.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert focused(chrome, "data-position") == "0"
    if len(run["stages"]) > 1:
        chrome.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
        assert focused(chrome, "data-position") == "1"
    index = int(focused(chrome, "data-stage"))
    chrome.switch_to.active_element.send_keys(Keys.ENTER)
    assert chrome.find_element(By.ID, "details").is_displayed(), "Enter shows the details"
    expected = {k for k, move in enumerate(run["moves"]) if index in (move["to"], move["from"])}
    assert set(shown_moves(chrome)) == expected
    assert focused(chrome, "id") == "details-title", "the details have the focus"
    chrome.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not chrome.find_element(By.ID, "details").is_displayed(), "Escape closes the details"
    assert focused(chrome, "data-stage") == str(index), "the focus goes back"
    # The graph: arrows from node to node, Enter.
    chrome.execute_script("document.querySelector('#network [tabindex=\"0\"]').focus()")
    for _ in range(2):
        chrome.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    node = focused(chrome, "data-node")
    assert node is not None and node != "0", "arrows move in the graph"
    chrome.switch_to.active_element.send_keys(Keys.ENTER)
    assert chrome.find_element(By.ID, "details").is_displayed(), "Enter shows the details of a node"
    chrome.switch_to.active_element.send_keys(Keys.ESCAPE)
    # Every point of the roofline, the timeline.
    for selector, keys in (("#roofline .point", [Keys.ARROW_RIGHT]),
                           ("#timeline canvas", [Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, "+", "-", "0"])):
        if chrome.find_elements(By.CSS_SELECTOR, selector):
            chrome.execute_script("document.querySelector(arguments[0]).focus()", selector)
            for key in keys:
                chrome.switch_to.active_element.send_keys(key)
    if "timeline" in run:
        text = chrome.find_element(By.CSS_SELECTOR, "#timeline .readout").text
        assert text.startswith("cycle "), text


def check_table(chrome, run):
    """Sorted by cycles, and filtered."""
    chrome.execute_script("[...document.querySelectorAll('#layers .sort')].find((b) => b.textContent === 'cycles').click()")
    shown = chrome.execute_script("return [...document.querySelectorAll('#layers tr[data-stage]')].map((r) => Number(r.dataset.stage))")
    cycles = [run["stages"][index]["stats"]["cycles"] for index in shown]
    assert cycles == sorted(cycles, reverse=True) and cycles[0] == max(s["stats"]["cycles"] for s in run["stages"])
    search = chrome.find_element(By.ID, "filter")
    wanted = run["stages"][-1]["name"]
    chrome.execute_script("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", search, wanted)
    shown = chrome.execute_script("return [...document.querySelectorAll('#layers tr[data-stage]')].map((r) => Number(r.dataset.stage))")
    def has(stage):
        return any(wanted.strip().lower() in text.lower() for text in [stage["name"], stage["kind"], *stage["operators"]])
    assert sorted(shown) == [index for index, stage in enumerate(run["stages"]) if has(stage)][:len(shown)] and shown, shown
    chrome.execute_script("arguments[0].value = ''; arguments[0].dispatchEvent(new Event('input'))", search)
    chrome.execute_script("[...document.querySelectorAll('#layers .sort')].find((b) => b.textContent === '#').click()")


def check_page(chrome, page, documents, name):
    run = documents["files"][0]["runs"][0]
    load(chrome, page)
    count = check_numbers(chrome, documents)
    for _ in check_layers(chrome, run):
        count += check_numbers(chrome, documents)
    for index in range(min(len(run["layouts"]), 20)):
        chrome.execute_script("const s = document.getElementById('layout-select'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))",
                              str(index))
        count += check_numbers(chrome, documents)
    check_keys(chrome, run)
    check_table(chrome, run)
    chrome.execute_script("document.activeElement.blur(); window.scrollTo(0, 0)")
    for width in (NARROW, WIDE):
        resize(chrome, width)
        check_no_sideways(chrome, f"{width[0]} pixels")
        chrome.execute_script("document.querySelector('#layers tr[data-stage] td').click()")
        check_no_sideways(chrome, f"{width[0]} pixels, with details")
        if run["stages"]:
            time.sleep(0.2)
            (page.parent / f"{name}.details.{width[0]}.png").write_bytes(chrome.get_screenshot_as_png())
        chrome.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
    chrome.execute_script("window.scrollTo(0, 0)")
    screenshots(chrome, page, name)
    load(chrome, page, NARROW)
    check_no_sideways(chrome, "390 pixels from the beginning")
    check_quiet(chrome, page)
    print(f"{name}: {count} numbers are those of the JSON, page of {page.stat().st_size} bytes")


def kodama(command, *arguments):
    found = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr + found.stdout[-2000:]


def model_file(name, directory):
    if name.endswith(".onnx"):
        return pathlib.Path(name)
    file = directory / f"{name}.onnx"
    found = subprocess.run(["/usr/bin/python3", ROOT / "tools/zoo.py", name, "-o", file], capture_output=True, text=True)
    if found.returncode != 0:
        print(f"skipped: {found.stderr.strip().splitlines()[-1]}")
        sys.exit(77)
    return file


def make_run(command, directory, model):
    page, report = directory / "run.html", directory / "run.json"
    start = time.monotonic()
    kodama(command, "run", model_file(model, directory), "--no-compare" if not model.endswith(".onnx") else "--classes",
           "--report", page, "--json", report)
    print(f"{model}: run and written in {time.monotonic() - start:.1f} s")
    return page, json.loads(report.read_text())


def documents_of(*runs, comparison=None):
    documents = {"files": [{"runs": run if isinstance(run, list) else [run]} for run in runs]}
    if comparison is not None:
        documents["comparison"] = comparison
    return documents


def embedded(page):
    """The data that a page carries."""
    text = page.read_text(encoding="utf-8")
    begin = text.index('type="application/json">') + len('type="application/json">')
    return json.loads(text[begin:text.index("</script>", begin)])


def case_run(command, directory, model):
    page, run = make_run(command, directory, model)
    assert embedded(page)["files"][0]["runs"] == [run], "the page's data are not the JSON's"
    # The same page comes from the file.
    again = directory / "again.html"
    kodama(command, "report", directory / "run.json", "-o", again)
    ours, theirs = embedded(page), embedded(again)
    assert ours["files"][0]["runs"] == theirs["files"][0]["runs"] and ours["files"][0]["graphs"] == theirs["files"][0]["graphs"]
    chrome = open_browser()
    try:
        check_page(chrome, page, documents_of(run), "run")
    finally:
        chrome.quit()


HOSTILE = ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\"'`&lt;", "\u202eright\u2028to left\u2029", "\u6f22\u5b57 \U0001f600",
           "", "a/b/c" * 60, "<!--", "]]>", "__proto__", "constructor"]


def case_names(command, directory, model):
    """Names are anybody's."""
    _, run = make_run(command, directory, model)
    run["model"] = HOSTILE[0]
    for k, stage in enumerate(run["stages"]):
        stage["name"] = HOSTILE[k % len(HOSTILE)]
        stage["operators"] = [HOSTILE[(k + 1) % len(HOSTILE)]]
        stage["operation"] = HOSTILE[(k + 2) % len(HOSTILE)]
        for transfer in stage["transfers"]:
            transfer["tensor"] = HOSTILE[1]
    for k, move in enumerate(run["moves"]):
        move["tensor"] = HOSTILE[k % len(HOSTILE)]
    for layout in run["layouts"]:
        layout["text"] = layout["drawing"] = HOSTILE[0]
    run["timeline"]["names"] = [HOSTILE[k % len(HOSTILE)] for k in range(len(run["timeline"]["names"]))]
    for level in run["memory"]["levels"]:
        for k, tensor in enumerate(level["tensors"]):
            tensor["tensor"] = HOSTILE[k % len(HOSTILE)]
    run["outputs"] = {HOSTILE[1]: {"max_absolute": 0.5, "max_relative": 1e-9, "unequal": 0}, "__proto__": {"max_absolute": 0, "max_relative": 0, "unequal": 3}}
    source, page = directory / "hostile.json", directory / "hostile.html"
    source.write_text(json.dumps(run))
    kodama(command, "report", source, "-o", page)
    assert embedded(page)["files"][0]["runs"] == [run]
    chrome = open_browser()
    try:
        check_page(chrome, page, documents_of(run), "hostile")
    finally:
        chrome.quit()


def damaged(run):
    """Files that aren't what `run` writes, and what the message must name."""
    def changed(change):
        other = copy.deepcopy(run)
        change(other)
        return json.dumps(other)
    yield "", "not JSON"
    yield "[]", "an empty list"
    yield "3", "an object"
    yield "{}", "'model'"
    yield changed(lambda r: r.pop("stages")), "'stages'"
    yield changed(lambda r: r["stages"][0].update(name=3)), "stages[0].name"
    yield changed(lambda r: r["stages"][0]["stats"].update(cycles="many")), "stages[0].stats.cycles"
    yield changed(lambda r: r["moves"][0].update(to=len(r["stages"]))), "moves[0].to"
    yield changed(lambda r: r["moves"][0].update(to=-1)), "moves[0].to"
    yield changed(lambda r: r["moves"][0].update(layout=1.5)), "moves[0].layout"
    yield changed(lambda r: r["timeline"]["tracks"][0].update(runs=[[0, 1, 2]])), "timeline.tracks[0].runs[0]"
    yield changed(lambda r: r["timeline"].update(bin_cycles=0)), "timeline.bin_cycles"
    yield changed(lambda r: r["memory"]["levels"][0].update(tensors={})), "memory.levels[0].tensors"
    yield changed(lambda r: r.update(total=None)), "total"


def case_damage(command, directory, model):
    _, run = make_run(command, directory, model)
    source = directory / "damaged.json"
    for text, named in damaged(run):
        source.write_text(text)
        found = subprocess.run([command, "report", source, "-o", directory / "damaged.html"], capture_output=True, text=True)
        assert found.returncode == 2 and named in found.stderr and not (directory / "damaged.html").exists(), \
            f"{named}: {found.returncode} {found.stderr}"


def case_compare(command, directory, model):
    """Two runs of which one has other transfers, and one layer that the other lacks."""
    files = []
    for name, options in (("a", []), ("b", ["--transfers", "on-demand", "--weights", "stream"])):
        files.append(directory / f"{name}.json")
        kodama(command, "run", model, "--no-compare", "--json", files[-1], *options)
    runs = [json.loads(file.read_text()) for file in files]
    runs[0]["stages"][-1]["name"] += " renamed"
    files[0].write_text(json.dumps(runs[0]))
    page = directory / "compare.html"
    kodama(command, "report", *files, "-o", page)
    comparison = embedded(page)["comparison"]
    for row in comparison["layers"]:
        cycles = [None if row[key] is None else run["stages"][row[key]]["stats"]["cycles"] for key, run in zip(("stage_a", "stage_b"), runs)]
        assert [row["a"], row["b"]] == cycles
        assert row["difference"] == (None if None in cycles else cycles[1] - cycles[0])
    alone = [row["name"] for row in comparison["layers"] if row["difference"] is None]
    names = [[stage["name"] for stage in run["stages"]] for run in runs]
    assert alone == [name for name in names[0] if name not in names[1]] + [name for name in names[1] if name not in names[0]], alone
    assert "renamed" in alone[0]
    chrome = open_browser()
    try:
        load(chrome, page)
        documents = documents_of(*runs, comparison=comparison)
        count = check_numbers(chrome, documents)
        shown = chrome.find_elements(By.CSS_SELECTOR, "#comparison tr[data-row]")
        assert len(shown) == len(comparison["layers"])
        select = chrome.find_element(By.CSS_SELECTOR, "#choices select")
        chrome.execute_script("arguments[0].value = '1'; arguments[0].dispatchEvent(new Event('change'))", select)
        count += check_numbers(chrome, documents)
        screenshots(chrome, page, "compare")
        resize(chrome, NARROW)
        check_no_sideways(chrome, "390 pixels")
        check_quiet(chrome, page)
        print(f"compare: {count} numbers are those of the JSON")
    finally:
        chrome.quit()


def large_run(run, count):
    """The layers of a run again and again, each reading what the one before made; every third also an earlier one."""
    big = copy.deepcopy(run)
    stages, moves = [], []
    edge = next(move for move in run["moves"] if move["from"] is not None and move["to"] is not None)
    for k in range(count):
        stage = copy.deepcopy(run["stages"][k % len(run["stages"])])
        stage["name"] = f"block{k // 20}.layer{k}"
        stage["transfers"] = []
        stages.append(stage)
        for source in {k - 1, k - 4 if k % 3 == 0 else k - 1}:
            moves.append(dict(edge, **{"from": source if source >= 0 else None, "to": k,
                                       "tensor": f"t{source}" if source >= 0 else run["model_inputs"][0]["name"]}))
    big.update(stages=stages, moves=moves)
    total = run["timeline"]["cycles"]
    big["timeline"]["layers"] = [[k, total * k // count, total * (k + 1) // count] for k in range(count)]
    return big


def case_large(command, directory, model):
    _, run = make_run(command, directory, model)
    big = large_run(run, 10000)
    source, page = directory / "large.json", directory / "large.html"
    source.write_text(json.dumps(big))
    start = time.monotonic()
    kodama(command, "report", source, "-o", page)
    made = time.monotonic() - start
    chrome = open_browser()
    try:
        chrome.get("about:blank")
        chrome.execute_cdp_cmd("Performance.enable", {})
        opened = load(chrome, page) - SETTLE
        metrics = {each["name"]: each["value"] for each in chrome.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]}
        print(f"10,000 layers: page of {page.stat().st_size} bytes made in {made:.1f} s, opened in {opened:.2f} s, "
              f"of which the page's thread computes {metrics['ThreadTime']:.2f} s; load of this machine {os.getloadavg()[0]:.1f}")
        count = check_numbers(chrome, documents_of(big))
        rows = len(chrome.find_elements(By.CSS_SELECTOR, "#layers tr[data-stage]"))
        assert rows < 100, f"{rows} rows are made"
        chrome.find_element(By.TAG_NAME, "body").send_keys("/")
        chrome.switch_to.active_element.send_keys("layer9999", Keys.ENTER)
        assert focused(chrome, "data-stage") == "9999"
        chrome.switch_to.active_element.send_keys(Keys.ENTER)
        assert len(shown_moves(chrome)) >= 1
        count += check_numbers(chrome, documents_of(big))
        chrome.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
        chrome.execute_script("arguments[0].value = ''; arguments[0].dispatchEvent(new Event('input'))", chrome.find_element(By.ID, "filter"))
        screenshots(chrome, page, "large")
        check_quiet(chrome, page)
        print(f"large: {count} numbers are those of the JSON")
    finally:
        chrome.quit()


def case_open(command, directory, model):
    """A model whose loop and whose number of rows only the data know: its parts, and a page for each program."""
    models = ROOT / "testsuite/golden/models"
    for name, inputs in (("loop", ["x=x.npy", "m=three.npy"]), ("positive", ["x=x.npy"])):
        page, report = directory / f"{name}.html", directory / f"{name}.json"
        arguments = [part for text in inputs for part in ("--input", text.replace("=", f"={models}/"))]
        kodama(command, "run", models / f"{name}.onnx", "--chip", "tiny", "--check-layers", *arguments, "--report", page, "--json", report)
        run = json.loads(report.read_text())
        assert embedded(page)["files"][0]["runs"] == [run], "the page's data are not the JSON's"
        again = directory / "again.html"
        kodama(command, "report", report, "-o", again)
        assert embedded(again)["files"][0]["runs"] == [run]
        # What the programs took is what the parts took on the chip.
        for number, region in enumerate(run["regions"]):
            own = [program for program in run["programs"] if program["region"] == number]
            if own:
                assert sum(program["runs"] for program in own) == region["runs"]
                assert sum(program["cycles"] for program in own) == region["cycles"]
            else:
                assert region["chip_cycles"] == 0, region["name"]
        assert run["programs"] and all("timeline" in program["run"] for program in run["programs"])
        for program in run["programs"]:
            bands = program["run"]["timeline"]["layers"]
            assert bands and any(stage["transfers"] for stage in program["run"]["stages"]), program["region"]
            if program["runs"] == 1:
                assert program["cycles"] == program["run"]["total"]["total_cycles"]
        # Names are anybody's here, too.
        run["open_reason"] = run["regions"][0]["name"] = HOSTILE[0]
        run["regions"][0]["operators"] = run["regions"][0]["reasons"] = HOSTILE
        run["programs"][0]["inputs"].append({"name": HOSTILE[1], "shape": [2, 0]})
        source, hostile = directory / "hostile.json", directory / f"{name}.hostile.html"
        source.write_text(json.dumps(run))
        kodama(command, "report", source, "-o", hostile)
        damages = (({"programs": None}, "programs"), ({"programs": [dict(run["programs"][0], region=99)]}, "programs[0].region"),
                   ({"programs": [dict(run["programs"][0], run=run)]}, "programs[0].run"),
                   ({"regions": [dict(run["regions"][0], hits="x")]}, "regions[0].hits"))
        for change, named in damages:
            source.write_text(json.dumps({**run, **change}))
            found = subprocess.run([command, "report", source, "-o", directory / "damaged.html"], capture_output=True, text=True)
            assert found.returncode == 2 and named in found.stderr, f"{named}: {found.stderr}"
        beside = subprocess.run([command, "report", report, report, "-o", directory / "two.html"], capture_output=True, text=True)
        assert beside.returncode == 2 and "compiled while it runs" in beside.stderr, beside.stderr
        chrome = open_browser()
        try:
            for shown, documents in ((page, documents_of(json.loads(report.read_text()))), (hostile, documents_of(run))):
                load(chrome, shown)
                count = check_numbers(chrome, documents)
                for number, program in enumerate(documents["files"][0]["runs"][0]["programs"]):
                    chrome.find_element(By.CSS_SELECTOR, f"#programs [data-program='{number}']").click()
                    count += check_numbers(chrome, documents)
                    for _ in check_layers(chrome, program["run"]):
                        count += check_numbers(chrome, documents)
                    chrome.find_element(By.TAG_NAME, "body").send_keys(Keys.ESCAPE)
                    assert chrome.find_element(By.CSS_SELECTOR, "#timeline canvas").is_displayed()
                screenshots(chrome, shown, shown.stem)
                for width in (NARROW, WIDE):
                    resize(chrome, width)
                    check_no_sideways(chrome, f"{width[0]} pixels")
                check_quiet(chrome, shown)
                print(f"{shown.stem}: {count} numbers are those of the JSON")
        finally:
            chrome.quit()


CASES = {"run": case_run, "open": case_open, "names": case_names, "damage": case_damage, "compare": case_compare, "large": case_large}


def main():
    if len(sys.argv) != 5 or sys.argv[3] not in CASES:
        sys.exit(__doc__)
    directory = pathlib.Path(sys.argv[2])
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.html"):
        old.unlink()
    CASES[sys.argv[3]](sys.argv[1], directory, sys.argv[4])


if __name__ == "__main__":
    main()
