"""The report's folder: what it says, what it lets through, and how large it gets."""

from __future__ import annotations

import datetime
import json
import math
import random
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from benchmarks.runs import Maker, make_runs
from stages.agent.models import Event
from stages.common.errors import UserError
from stages.common.files import digest_tree, write_json, write_text
from stages.common.params import Params, load_params
from stages.evaluate.models import Cause
from stages.report.models import RunSummary, TaskOutcome, TrialOutcome
from stages.report.secrets import MASK, mask
from stages.report.site import write_site
from stages.report.site.changes import find_changes
from stages.report.site.libraries import as_script
from stages.report.site.overview import make_causes, make_matrix, state, view_run
from stages.report.site.payload import file_name, unpack
from stages.report.site.shown import clean, cut
from stages.report.site.timeline import make_timeline
from stages.report.statistics import rate
from stages.report.summary import read_summary
from stages.run.models import TrialStatus
from stages.suite.models import Status

HOSTILE = (
    "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    "<svg onload=window.hacked=1>'\"`{{ 7*7 }}{% raw %}</pre></style><!-- ]]> "
    "\x00\x1b[31mred\u202e\ud800"
)


@pytest.fixture
def params(repository: Path) -> Params:
    return load_params(repository / "params.yaml")


def piece(folder: Path, name: str) -> str:
    """The HTML of a piece, which is to hold nothing but one call with plain letters."""
    text = (folder / "data" / f"{name}.js").read_text()
    found = re.fullmatch(r'report\.take\("([\w./@-]+)", "([A-Za-z0-9+/=]+)"\);\n', text)
    assert found, text[:200]
    assert found[1] == name
    return unpack(found[2])


class Elements(HTMLParser):
    """Every element's name, and every attribute's."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


# ---- what is let through ----


def hostile_run(root: Path, params: Params) -> RunSummary:
    """A run in which every text that a model or a database can choose is hostile."""
    (run,) = make_runs(root, params, tasks=2, models=1, events=20)
    assert run.results
    name = run.tasks[0].instance_id
    folder = run.results / "runs" / name / "0"
    data = json.loads((folder / "trace.json").read_text())
    for event in data:
        event["text"] = json.dumps({"sql": HOSTILE, HOSTILE: HOSTILE, "file_path": HOSTILE})
        event["tool"] = event["tool"] and HOSTILE
        event["who"] = HOSTILE if event["who"] == "verifier" else "main"
    data.append({**data[0], "kind": "text", "text": HOSTILE, "tool": None, "tool_id": None})
    (folder / "trace.json").write_text(json.dumps(data))
    write_text(folder / "project" / "models" / "new_0.sql", HOSTILE.replace("\ud800", ""))
    (folder / "project" / "models" / "<script>alert(1)<script>.sql").write_text("select 1")
    call = json.loads((folder / "queries" / "queries.jsonl").read_text().splitlines()[0])
    call |= {"sql": HOSTILE, "tool": HOSTILE, "error": HOSTILE, "arguments": {HOSTILE: HOSTILE}}
    (folder / "queries" / "queries.jsonl").write_text(json.dumps(call) + "\n")
    verdicts = json.loads((run.results / "verdicts.json").read_text())
    maker = Maker(root, seed=2)
    bad = maker.verdict(name, 0, False).model_dump(mode="json")
    table = bad["tables"][0]
    table |= {
        "table": HOSTILE,
        "detail": HOSTILE,
        "strict_detail": HOSTILE,
        "disagreement": HOSTILE,
    }
    table["diagnosis"] = maker.diagnosis(Cause.ORDER).model_dump(mode="json") | {"text": HOSTILE}
    for column in table["diagnosis"]["columns"]:
        column |= {"column": HOSTILE, "nearest": HOSTILE}
    for row in table["diagnosis"]["rows"]:
        row |= {"column": HOSTILE, "gold": HOSTILE, "result": HOSTILE, "key": {HOSTILE: HOSTILE}}
    bad["reason"] = HOSTILE
    rest = [item for item in verdicts if item["instance_id"] != name]
    (run.results / "verdicts.json").write_text(json.dumps([bad, *rest]))
    tasks = json.loads((run.results / "suite" / "tasks.json").read_text())
    tasks[0]["instruction"] = HOSTILE
    (run.results / "suite" / "tasks.json").write_text(json.dumps(tasks))
    dates = json.loads((run.results / "dates.json").read_text())
    dates[name] |= {"note": HOSTILE}
    dates[name]["evidence"][0] |= {"table": HOSTILE, "column": HOSTILE, "value": HOSTILE}
    (run.results / "dates.json").write_text(json.dumps(dates))
    own = params.model_copy(update={"tasks": None})
    return read_summary(own, run.results, HOSTILE.replace("\ud800", ""))


def test_nothing_that_a_model_or_a_database_says_becomes_markup(
    tmp_path: Path, params: Params
) -> None:
    run = hostile_run(tmp_path, params)
    out = tmp_path / "report"
    write_site(out, run, [run.model_copy(update={"label": f"{run.label} again"})])
    pages = [
        piece(out, path.relative_to(out / "data").with_suffix("").as_posix())
        for path in (out / "data").rglob("*.js")
    ]
    index = (out / "index.html").read_text()
    assert sum("window.hacked=1" in page for page in pages) >= 4
    for html in pages:
        found = Elements(html)
        assert not found.tags & {"script", "img", "svg", "style", "iframe", "link", "base", "form"}
        assert not {name for name in found.attributes if name.startswith("on")}
    front = Elements(index)
    assert not front.tags & {"img", "svg", "iframe", "style", "base"}
    assert not {name for name in front.attributes if name.startswith("on")}
    assert "<script>window" not in index
    assert "</script><script>" not in index
    whole = "".join([index, *pages])
    assert "\x00" not in whole
    assert "\x1b" not in whole
    assert "\u202e" not in whole
    assert "{{ 7*7 }}" in "".join(text for page in pages for text in Elements(page).text)


def test_unseen_characters_are_shown_and_terminal_colours_dropped() -> None:
    assert clean("a\x00b\x1b[1;31mred\x1b[0m\r\nc\u202ed\ud800") == "a␀bred\nc‹U+202E›d\ufffd"


@pytest.mark.parametrize(
    "secret",
    [
        "sk-ant-api03-" + "a1B2" * 12,
        "AKIA" + "ABCDEFGH12345678",
        "ghp_" + "a1B2c3D4e5" * 4,
        "xoxb-1234567890-abcdefghij",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijk",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
    ],
)
def test_known_credentials_are_masked(secret: str) -> None:
    assert mask(f"key = '{secret}';") == f"key = '{MASK}';"


def test_a_credential_is_masked_by_what_stands_before_it() -> None:
    assert mask("Authorization: Bearer abcdef123456xyz") == f"Authorization: Bearer {MASK}"
    assert mask("the bearer of bad news") == "the bearer of bad news"


def test_a_secret_in_a_trace_a_diff_or_a_query_is_in_no_file(
    tmp_path: Path, params: Params
) -> None:
    (run,) = make_runs(tmp_path, params, tasks=1, models=1, events=6)
    assert run.results
    folder = run.results / "runs" / run.tasks[0].instance_id / "0"
    secret = "sk-ant-api03-" + "Zz9" * 20
    data = json.loads((folder / "trace.json").read_text())
    # Where a text is cut must not decide whether a credential is recognised.
    for event in data:
        event["text"] = secret if event["kind"] != "tool_use" else json.dumps({"command": secret})
    data[0]["text"] = "x" * 13_320 + secret + "x" * 30_000
    (folder / "trace.json").write_text(json.dumps(data))
    write_text(folder / "project" / "models" / "new_0.sql", f"-- {secret}\nselect 1")
    lines = (folder / "queries" / "queries.jsonl").read_text().splitlines()
    call = json.loads(lines[0]) | {"sql": f"select '{secret}'", "error": secret}
    (folder / "queries" / "queries.jsonl").write_text(json.dumps(call) + "\n")
    out = tmp_path / "report"
    write_site(out, run)
    names = [
        path.relative_to(out / "data").with_suffix("") for path in (out / "data").rglob("*.js")
    ]
    pages = [piece(out, name.as_posix()) for name in names]
    assert sum(MASK in page for page in pages) == 2
    assert not any("sk-ant" in page or "Zz9Zz9" in page for page in pages)


# ---- sizes ----


def test_a_result_of_a_megabyte_is_cut_and_says_by_how_much(tmp_path: Path, params: Params) -> None:
    (run,) = make_runs(tmp_path, params, tasks=1, models=1, events=4)
    assert run.results
    name = run.tasks[0].instance_id
    path = run.results / "runs" / name / "0" / "trace.json"
    data = json.loads(path.read_text())
    noise = random.Random(1)
    data[-2]["text"] = "".join(noise.choices("abcdefghijklmnopqrstuvwxyz\n", k=999_998)).join("<>")
    data[-2]["kind"] = "text"
    path.write_text(json.dumps(data))
    write_site(tmp_path / "report", run)
    html = piece(tmp_path / "report", f"run/{name}-0-trace")
    assert "980,000 of 1,000,000 characters left out here" in html
    assert len(html) < 100_000


def test_traces_are_cut_further_the_more_of_them_there_are(
    tmp_path: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = make_runs(tmp_path, params, tasks=3, models=1, events=60)
    monkeypatch.setattr("stages.report.site.fit.TOTAL", 60_000)
    write_site(tmp_path / "report", run)
    sizes = [path.stat().st_size for path in (tmp_path / "report" / "data").rglob("*.js")]
    assert len(sizes) == 6
    assert sum(sizes) < 62_000
    name = run.tasks[0].instance_id
    assert "characters left out here" in piece(tmp_path / "report", f"run/{name}-0-trace")


def test_a_cut_keeps_the_beginning_and_the_end() -> None:
    short = cut("a" * 600 + "b" * 600, 300)
    assert (short.head, short.tail, short.left_out) == ("a" * 200, "b" * 100, 900)
    assert short.note == "900 of 1,200 characters left out here"
    assert cut("abc", 3).left_out == 0


def test_the_same_runs_give_the_same_bytes(tmp_path: Path, params: Params) -> None:
    runs = make_runs(tmp_path / "made", params, tasks=2, models=2, events=12)
    write_site(tmp_path / "a", runs[0], runs[1:])
    write_text(tmp_path / "b" / "data" / "run" / "stale.js", "old")
    write_site(tmp_path / "b", runs[0], runs[1:])
    assert digest_tree(tmp_path / "a") == digest_tree(tmp_path / "b")


def test_no_page_asks_for_anything_from_outside(tmp_path: Path, params: Params) -> None:
    (run,) = make_runs(tmp_path, params, tasks=1, models=1, events=4)
    write_site(tmp_path / "report", run)
    index = (tmp_path / "report" / "index.html").read_text()
    assert re.findall(r"""(?:src|href)=["'](?!#|assets/|data:)[^"']*""", index) == []
    own = [
        path.read_text()
        for path in (tmp_path / "report" / "assets").iterdir()
        if path.name not in ("plotly.js", "datatables.js")
    ]
    assert not any(re.search(r"https?://|//cdn", text) for text in own)


# ---- what it says ----


def outcome(passed: bool | None, trial: int = 0, **other: object) -> TrialOutcome:
    return TrialOutcome.model_validate(
        {
            "trial": trial,
            "status": TrialStatus.COMPLETED,
            "passed": passed,
            "passed_officially": passed,
            **other,
        }
    )


def summary(label: str, *tasks: TaskOutcome) -> RunSummary:
    return RunSummary(label=label, suite="small", agent="claude", model="m", tasks=tasks)


def task(name: str, *trials: TrialOutcome, audit: Status = Status.SCOREABLE) -> TaskOutcome:
    return TaskOutcome(instance_id=name, audit=audit, trials=trials)


def test_the_interval_is_wilsons() -> None:
    found = rate(9, 15)
    z, n, p = 1.959963984540054, 15, 0.6
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    assert (found.low, found.high) == pytest.approx((middle - half, middle + half))
    assert (rate(0, 0).value, rate(0, 0).low, rate(0, 0).high) == (None, 0.0, 1.0)
    assert rate(0, 20).low == 0


def test_a_tasks_state_tells_flaky_resolved_and_unscored_apart() -> None:
    resolved = outcome(True, passed_officially=False, resolutions=("fct_fact",))
    assert state(task("a", outcome(True))) == "pass"
    assert state(task("a", resolved)) == "resolved"
    assert state(task("a", outcome(False))) == "fail"
    assert state(task("a", outcome(True), outcome(False, 1))) == "flaky"
    assert state(task("a", outcome(None))) == "unscored"
    assert state(task("a")) == "none"
    assert state(task("a", audit=Status.NO_GOLD)) == "unscored"
    assert state(None) == "absent"


def test_the_run_is_counted_with_its_denominators() -> None:
    resolved = outcome(True, passed_officially=False, resolutions=("misnamed_gold",))
    run = summary(
        "workspace",
        task(
            "a", outcome(True, cost_usd=1.0, turns=4, sealed=True), outcome(True, 1, cost_usd=2.0)
        ),
        task("b", outcome(True), outcome(False, 1)),
        task("c", resolved, audit=Status.GOLD_MISNAMED),
        task("d", audit=Status.NO_GOLD),
    )
    view = view_run(run, "")
    assert (view.scoreable.part, view.scoreable.whole) == (2, 3)
    assert (view.all.part, view.all.whole) == (2, 4)
    assert (view.trial_rate.part, view.trial_rate.whole) == (4, 5)
    assert (view.official, view.strict, view.sealed) == (1, None, 1)
    assert view.resolved == (("c", "misnamed gold"),)
    assert view.misnamed == ("c",)
    assert view.flaky == ("b",)
    assert [name for name, _ in view.unscoreable] == ["d"]
    assert view.per_task and view.per_task.cost_usd == 1.0
    assert view.per_pass and view.per_pass.cost_usd == 1.5


def test_the_matrix_has_every_task_of_every_run_and_opens_a_failed_trial() -> None:
    first = view_run(summary("workspace", task("a", outcome(True), outcome(False, 1))), "")
    second = view_run(summary("other", task("b", outcome(False))), "other")
    rows = dict(make_matrix([first, second]))
    assert [cell.state for cell in rows["a"]] == ["flaky", "absent"]
    assert (rows["a"][0].ref, rows["a"][0].texts["verdict"]) == ("1", "1/2")
    assert [cell.state for cell in rows["b"]] == ["absent", "fail"]
    assert rows["b"][1].ref == "0@other"


def test_causes_are_those_of_trials_that_failed() -> None:
    run = summary(
        "workspace",
        task("a", outcome(False, causes=("row_count", "order"))),
        task("b", outcome(False, causes=("row_count",))),
        task("c", outcome(True)),
        task("d", outcome(None)),
        task("e", outcome(False)),
    )
    found = {cause: [name for name, _ in row[0]] for cause, row in make_causes([view_run(run, "")])}
    assert found == {"row_count": ["a", "b"], "order": ["a"], "other": ["e"]}


def test_names_of_files_are_safe_and_different() -> None:
    assert file_name("harbor001") == "harbor001"
    names = {file_name(name) for name in ("../x", "..-x", "A", "a", "<b>", "é" * 200)}
    assert len(names) == 6
    assert all(re.fullmatch(r"[a-z0-9_-]+", name) for name in names)


def test_a_run_of_which_only_outcomes_are_known_has_pages_without_traces(tmp_path: Path) -> None:
    run = summary("workspace", task("a", outcome(False, reason="t: rows differ")), task("b"))
    write_site(tmp_path, run)
    html = piece(tmp_path, "run/a-0")
    assert "t: rows differ" in html
    assert "There is no trace of this trial here." in html
    assert "not run" in piece(tmp_path, "run/b-0")


# ---- diffs ----


def test_a_diff_shows_what_was_added_changed_and_removed(tmp_path: Path) -> None:
    for name in ("same.sql", "changed.sql", "removed.sql"):
        write_text(tmp_path / "start" / "models" / name, "select 1\nfrom a\n")
        write_text(tmp_path / "project" / "models" / name, "select 1\nfrom a\n")
    (tmp_path / "project" / "models" / "removed.sql").unlink()
    write_text(tmp_path / "project" / "models" / "changed.sql", 'select 2 as "<b>"\nfrom a\n')
    write_text(tmp_path / "project" / "models" / "new.yml", "version: 2\n")
    for made in ("target/x.sql", "logs/dbt.log", ".claude/skills/s/SKILL.md", "CLAUDE.md"):
        write_text(tmp_path / "project" / made, "laid down\n")
    found = {
        change.path: change for change in find_changes(tmp_path / "project", tmp_path / "start")
    }
    assert list(found) == ["models/changed.sql", "models/removed.sql", "models/new.yml"]
    changed = found["models/changed.sql"]
    assert (changed.kind, changed.added, changed.removed) == ("changed", 1, 1)
    kinds = [(line.kind, line.old, line.new) for line in changed.hunks[0]]
    assert kinds == [("removed", 1, None), ("added", None, 1), ("same", 2, 2)]
    assert "&lt;b&gt;" in changed.hunks[0][1].html
    assert (found["models/removed.sql"].kind, found["models/removed.sql"].removed) == ("removed", 2)
    assert found["models/new.yml"].kind == "added"


def test_the_overlay_is_part_of_the_start_project(tmp_path: Path) -> None:
    write_text(tmp_path / "start" / "a.sql", "select 1\n")
    write_text(tmp_path / "overlay" / "b.csv", "x\n")
    for name, text in (("a.sql", "select 1\n"), ("b.csv", "x\n")):
        write_text(tmp_path / "project" / name, text)
    assert find_changes(tmp_path / "project", tmp_path / "start", tmp_path / "overlay") == []


def test_links_binaries_and_huge_files_are_not_read_into_the_diff(tmp_path: Path) -> None:
    write_text(tmp_path / "secret.txt", "outside\n")
    project = tmp_path / "project"
    write_text(project / "big.sql", "select 1\n" * 30_000)
    (project / "blob.sql").write_bytes(b"a\0b")
    (project / "link.sql").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "start").mkdir()
    found = {change.path: change.note for change in find_changes(project, tmp_path / "start")}
    assert found == {
        "big.sql": "270,000 bytes: too large to be compared here",
        "blob.sql": "no text, 3 bytes",
    }


# ---- traces ----


def event(at: float, kind: str, text: str = "", **other: object) -> Event:
    return Event.model_validate(
        {"time_s": at, "turn": 1, "who": "main", "kind": kind, "text": text, **other}
    )


def test_a_tools_use_and_its_result_are_one_step_with_its_duration() -> None:
    line = make_timeline(
        [
            event(1, "text", "I look."),
            event(2, "tool_use", '{"command": "dbt build"}', tool="Bash", tool_id="1"),
            event(2.5, "tool_use", '{"sql": "select 1"}', tool="mcp__gateway__query", tool_id="2"),
            event(4, "tool_result", "two", tool_id="2"),
            event(7, "tool_result", "one", tool_id="1", error=True),
            event(8, "tool_result", "of nothing", tool_id="9"),
            event(9, "text", "checked", who="verifier"),
        ],
        limit=100,
    )
    assert [(step.number, step.kind) for step in line.steps] == [
        (0, "said"),
        (1, "tool"),
        (2, "tool"),
        (5, "tool"),
        (6, "said"),
    ]
    bash, query = line.steps[1:3]
    assert (bash.title, bash.summary, bash.took, bash.error) == ("Bash", "dbt build", 5.0, True)
    assert (query.title, query.took, query.error) == ("gateway: query", 1.5, False)
    assert [part.text.head for part in bash.parts] == ["dbt build", "one"]
    assert line.tool_s == 5.0
    assert line.people == ("main", "verifier")


def test_an_input_that_is_no_json_is_shown_as_it_is() -> None:
    line = make_timeline([event(0, "tool_use", "{broken", tool="X", tool_id="1")], limit=100)
    assert line.steps[0].parts[0].text.head == "{broken"
    assert line.steps[0].took is None


def test_a_trace_of_very_many_steps_keeps_its_beginning_and_end() -> None:
    line = make_timeline([event(n, "text", str(n)) for n in range(10_000)], limit=100)
    assert (len(line.steps), line.left_out) == (3000, 7000)
    assert line.steps[-1].summary == "9999"
    assert line.gap == 9000


# ---- what it is made of ----


def test_a_module_becomes_a_script_with_its_default_export() -> None:
    script = as_script("var a=1,b=2;export{a as Other,b as default};", "Thing")
    assert script == "(function(){var a=1,b=2;;globalThis.Thing=b;\n})();\n"


def test_a_bundle_that_is_built_otherwise_is_refused() -> None:
    with pytest.raises(UserError, match="the bundle of DataTables is not built as it was"):
        as_script("module.exports = {}", "Thing")


def test_the_summary_reads_diagnosed_causes_and_infrastructure_failures(
    tmp_path: Path, params: Params
) -> None:
    (run,) = make_runs(tmp_path, params, tasks=4, models=1, trials=2, events=4)
    assert run.results
    own = params.model_copy(update={"tasks": None, "trials": 2})
    verdicts = json.loads((run.results / "verdicts.json").read_text())
    failed = next(item for item in verdicts if item["passed"] is False)
    failed["tables"][0]["diagnosis"]["cause"] = "rounding"
    write_json(run.results / "verdicts.json", verdicts)
    name, trial = failed["instance_id"], failed["trial"]
    found = {task.instance_id: task for task in read_summary(own, run.results).tasks}
    assert found[name].trials[trial].causes == ("rounding",)
    assert [len(task.trials) for task in found.values()] == [2, 2, 2, 2]
    assert found[name].trials[trial].cost_usd > 0
    assert datetime.date(2024, 9, 8).isoformat() in piece_of(tmp_path, run, name, trial)


def piece_of(root: Path, run: RunSummary, name: str, trial: int) -> str:
    write_site(root / "report", run)
    return piece(root / "report", f"run/{name}-{trial}")
