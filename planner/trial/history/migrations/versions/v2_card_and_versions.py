"""What a calibration asks for, in columns: card, library versions, whether peaks are censored."""

import json

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

SEARCHED = {"gpu": 64, "torch_version": 500, "transformers_version": 500}


def upgrade() -> None:
    """Add the columns and fill them from the parts that each row has."""
    for name, most in SEARCHED.items():
        column = sa.Column(name, sa.String(most), nullable=False, server_default="")
        op.add_column("headroom_trials", column)
    censored = sa.Column("censored", sa.Boolean, nullable=False, server_default=sa.false())
    op.add_column("headroom_trials", censored)
    connection = op.get_bind()
    table = sa.Table("headroom_trials", sa.MetaData(), autoload_with=connection)
    for name in connection.execute(sa.select(table.c.id)).scalars().all():
        row = connection.execute(
            sa.select(table.c.environment, table.c.rest).where(table.c.id == name)
        ).one()
        rest = json.loads(row.rest)
        versions = (json.loads(row.environment) or {}).get("versions", {})
        connection.execute(
            sa.update(table)
            .where(table.c.id == name)
            .values(
                gpu=rest["device"]["gpu"],
                torch_version=versions.get("torch", ""),
                transformers_version=versions.get("transformers", ""),
                censored=rest["censored"],
            )
        )
    for name in SEARCHED:
        op.create_index(f"headroom_trials_{name}", "headroom_trials", [name])
