"""Tools that read the dbt project's files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from stages.gateway.desk import Desk
from stages.gateway.models import Answer, CallError
from stages.gateway.project import Model, Project, read_project
from stages.gateway.relations import Relation, count_or_reason, pick, relations, unknown
from stages.gateway.render import clip, join, table

ModelName = Annotated[str, Field(description="A dbt model's name, without path and ending.")]


def dbt_project_map(
    desk: Desk,
    only_open: Annotated[
        bool, Field(description="Leave out the models that are complete.")
    ] = False,
) -> Answer:
    """Map the dbt project: every model as complete, stub or missing, in the order to build them.

    A stub has a SQL file with nothing finished in it; a missing model is described in YAML, or
    referred to, and has no file. It warns of current_date and its like, and of row_number() whose
    order is not settled, and names YAML that does not parse. Start here.
    """
    project = read_project(desk.settings.project)
    found, trouble = built(desk)
    todo = [model for model in project.models if model.status != "complete"]
    done = [model for model in project.models if model.status == "complete"]
    head = (
        f"{len(project.models)} models: {len(done)} complete, "
        f"{sum(model.status == 'stub' for model in todo)} stub, "
        f"{sum(model.status == 'missing' for model in todo)} missing; {len(project.seeds)} seeds, "
        f"{len({source.source for source in project.sources})} sources, "
        f"{len(project.package_models)} models of packages."
    )
    parts: list[str | Answer] = [head]
    if trouble:
        parts.append(f"The database cannot be read, so `built` is unknown: {trouble}")
    if project.problems:
        parts.append("PROBLEMS\n" + "\n".join(f"- {text}" for text in project.problems[:30]))
    rows = [
        (
            number,
            model.name,
            model.status,
            clip(", ".join(model.refs), 100) or "?",
            clip(", ".join(_asked_by(project, model)), 80),
            len(model.note.columns) if model.note else 0,
            "yes" if pick(found, model.table) else "no",
            _where(model, found),
        )
        for number, model in enumerate(todo, start=1)
    ]
    names = ["#", "model", "status", "reads", "is read by", "YAML columns", "built", "where"]
    parts.append(
        table(names, rows, desk.limits, title="TO DO, in this order", total=len(rows))
        if rows
        else "Nothing is missing and nothing is a stub: check what is there against the task."
    )
    warned = [(model.name, text) for model in project.models for text in model.warnings]
    if warned:
        parts.append(table(["model", "warning"], warned, desk.limits, title="WARNINGS"))
    if done and not only_open:
        parts.append(
            table(
                ["model", "reads", "built", "file"],
                [
                    (
                        model.name,
                        clip(", ".join([*model.refs, *(".".join(s) for s in model.sources)]), 100),
                        "yes" if pick(found, model.table) else "no",
                        model.path,
                    )
                    for model in done
                ],
                desk.limits,
                title="COMPLETE",
                total=len(done),
            )
        )
    return join(parts, desk.limits)


def _where(model: Model, found: Sequence[Relation]) -> str:
    if model.path:
        return f"{model.path} ({model.why})"
    if model.note is None and pick(found, model.table) is not None:
        return f"{model.why}; a table of this name is in the database: a source?"
    return model.why


def _asked_by(project: Project, model: Model) -> list[str]:
    return [other.name for other in project.models if model.name in other.refs]


def built(desk: Desk) -> tuple[list[Relation], str]:
    """The database's relations, or none and why: a project can be read without its database."""
    try:
        with desk.open() as reader:
            return relations(reader), ""
    except CallError as error:
        return [], error.what.splitlines()[0]


def find_model(project: Project, name: str) -> Model:
    """A model of the project.

    Raises:
        CallError: there is none; the message has the nearest names.
    """
    wanted = name.strip().removesuffix(".sql").rpartition("/")[2]
    model = project.model(wanted)
    if model is None:
        raise unknown("model", wanted, [item.name for item in project.models])
    return model


def generate_sql_skeleton(desk: Desk, model: ModelName) -> Answer:
    """Write a first draft of a model from its YAML columns, for you to complete.

    Columns that a likely input has under the same name are taken from it; the others are
    NULL with a TODO. Names and order are the YAML's; joins and grain are yours to decide.
    """
    project = read_project(desk.settings.project)
    chosen = find_model(project, model)
    found, trouble = built(desk)
    columns = chosen.note.columns if chosen.note else ()
    inputs = _inputs(project, found, chosen)
    taken = {column.name.lower() for column in inputs[0].columns} if inputs else set()
    lines = [f"-- {chosen.name}: {clip(chosen.note.description, 300) if chosen.note else ''}"]
    lines += [f"-- possible input: {_reference(project, item)}" for item in inputs[:4]]
    if inputs:
        lines += ["with source_rows as (", f"    select * from {_reference(project, inputs[0])}"]
        lines += [")", ""]
    lines.append("select")
    for index, column in enumerate(columns):
        kind = column.data_type or "varchar"
        if column.name.lower() in taken:
            text = f"source_rows.{column.name}"
            text = f"cast({text} as {kind}) as {column.name}" if column.data_type else text
            note = clip(column.description, 80)
        else:
            text = f"cast(null as {kind}) as {column.name}"
            note = f"TODO {clip(column.description, 80)}"
        comma = "," if index < len(columns) - 1 else ""
        lines.append(f"    {text}{comma}  -- {note}".rstrip(" -"))
    if not columns:
        lines.append("    *  -- TODO: the YAML lists no columns")
    lines.append("from source_rows" if inputs else "-- TODO: from which model or source?")
    place = chosen.path or f"models/…/{chosen.name}.sql"
    notes = [f"Skeleton for {place} ({len(columns)} columns from the YAML)"]
    if chosen.note and chosen.note.salvaged:
        notes.append("Its YAML is invalid; the columns were read line by line.")
    if trouble:
        notes.append(f"The database cannot be read, so no inputs were looked for: {trouble}")
    sql = "\n".join(lines)
    return join(["\n".join(notes), f"```sql\n{sql}\n```"], desk.limits)


def _inputs(project: Project, found: Sequence[Relation], model: Model) -> list[Relation]:
    """Built relations by how many of the model's columns they have; those it refers to first."""
    wanted = {column.name.lower() for column in model.note.columns} if model.note else set()
    names = {ref.lower() for ref in model.refs}
    scored = []
    for relation in found:
        shared = len(wanted & {column.name.lower() for column in relation.columns})
        known = relation.name.lower() in names
        if relation.name.lower() != model.name.lower() and (shared or known):
            scored.append((not known, -shared, relation.label, relation))
    return [item[-1] for item in sorted(scored, key=lambda item: item[:3])]


def _reference(project: Project, relation: Relation) -> str:
    for source in project.sources:
        if source.identifier.lower() == relation.name.lower():
            return f"{{{{ source('{source.source}', '{source.name}') }}}}"
    return f"{{{{ ref('{relation.name}') }}}}"


def audit_model_sources(desk: Desk, model: ModelName) -> Answer:
    """Check what a model reads: does each ref and source exist, is it built, how many rows has it?

    The model's own rows stand beside them, so that fan-out and over-filtering show.
    """
    project = read_project(desk.settings.project)
    chosen = find_model(project, model)
    if chosen.status == "missing":
        text = f"{chosen.name} is missing ({chosen.why}), so it reads nothing yet."
        return Answer(text=text, rows=0)
    known = {source.source: [] for source in project.sources}  # type: dict[str, list[str]]
    for source in project.sources:
        known[source.source].append(source.name)
    with desk.open() as reader:
        found = relations(reader)
        rows: list[tuple[object, ...]] = []
        for name in chosen.refs:
            relation = pick(found, name)
            size = count_or_reason(reader, relation) if relation else "not built"
            rows.append((f"ref {name}", _kind(project, name), size))
        for source_name, table_name in chosen.sources:
            note = next(
                (
                    item
                    for item in project.sources
                    if (item.source, item.name) == (source_name, table_name)
                ),
                None,
            )
            if note is None:
                tables = ", ".join(known.get(source_name, [])[:10])
                said = f"NOT DEFINED in YAML; the source has: {tables or 'nothing'}"
                rows.append((f"source {source_name}.{table_name}", said, ""))
                continue
            relation = pick(found, f"{note.schema_name}.{note.identifier}")
            relation = relation or pick(found, note.identifier)
            state: object = "NOT IN THE DATABASE"
            if relation is not None:
                state = count_or_reason(reader, relation)
            rows.append((f"source {source_name}.{table_name}", note.file, state))
        own = pick(found, chosen.name)
        size = count_or_reason(reader, own) if own else "not built"
        return table(
            ["reads", "what", "rows"],
            rows,
            desk.limits,
            title=f"{chosen.name} ({chosen.path}, {chosen.status}): {size}"
            f"{' rows' if isinstance(size, int) else ''}",
        )


def _kind(project: Project, name: str) -> str:
    model = project.model(name)
    if model is not None:
        return f"model, {model.status}"
    if name in project.seeds:
        return "seed"
    return "model of a package" if name in project.package_models else "NOT IN THE PROJECT"
