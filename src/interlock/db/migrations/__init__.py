"""The steps of the schema, which Alembic runs. A released step is never edited."""

from alembic import context

from interlock.db.schema import run_step


def run_sql(step: str) -> None:
    run_step(context.config.attributes["store"], step)
