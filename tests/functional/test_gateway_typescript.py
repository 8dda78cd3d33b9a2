"""The gateway with a client that is not Python's: the official TypeScript MCP SDK."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from stages.stack.environments import ensure_stack, stack_lock
from tests.functional.conftest import REPOSITORY, Workspace

SDK = "@modelcontextprotocol/sdk@1.32.2"
CALLS = {
    "analyze_grain": {"table_name": "a"},
    "audit_model_sources": {"model": "seen"},
    "check_model_schema": {"model": "seen"},
    "compare_join_types": {"left": "a", "right": "a", "left_columns": "id"},
    "dbt_error_parser": {"output": "Compilation Error in model seen"},
    "debug_cte_query": {"sql": "with x as (select 1 as n) select * from x"},
    "describe_table": {"table_name": "a"},
    "explain_query": {"sql": "select * from a"},
    "explore_column": {"table_name": "a", "column": "id"},
    "explore_table": {"table_name": "a"},
    "find_join_path": {"left": "a", "right": "a"},
    "generate_sql_skeleton": {"model": "seen"},
    "query_database": {"sql": "select count(*) as n from a"},
    "schema_link": {"question": "how many ids are there"},
    "validate_model_output": {"model": "seen"},
    "validate_sql": {"sql": "select id from a"},
}
"""Arguments of the tools that need some."""


@pytest.mark.heavy
def test_the_typescript_sdk_lists_every_tool_and_calls_each_once(
    workspace: Workspace, tmp_path: Path
) -> None:
    npm = shutil.which("npm")
    if npm is None:
        assert not os.environ.get("CI"), "CI installs Node.js"
        pytest.skip("Node.js and npm are needed for this test")
    client = tmp_path / "client"
    client.mkdir()
    (client / "package.json").write_text('{"type": "module", "private": true}')
    subprocess.run(
        [npm, "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock", SDK],
        cwd=client,
        check=True,
    )
    shutil.copyfile(REPOSITORY / "tests/third_party/list_and_call.mjs", client / "client.mjs")
    project = workspace.root / "suite" / "examples" / "one"
    stack = ensure_stack("current", stack_lock("current"))
    given = {
        "command": str(stack.python),
        "args": [
            "-m",
            "stages.gateway",
            f"--database={project / 'one.duckdb'}",
            f"--project={project}",
            f"--log={tmp_path / 'queries.jsonl'}",
        ],
        "env": {"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
        "calls": CALLS,
    }
    (client / "given.json").write_text(json.dumps(given))
    done = subprocess.run(
        ["node", "client.mjs", "given.json"], cwd=client, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert len(results) == 22
    assert set(CALLS) <= set(results)
    assert all(item["schema"] == "object" and item["described"] for item in results.values())
    assert "2" in results["query_database"]["text"]
    assert all(item["text"] for item in results.values())
    logged = [json.loads(line) for line in (tmp_path / "queries.jsonl").read_text().splitlines()]
    assert sorted(line["tool"] for line in logged) == sorted(results)
