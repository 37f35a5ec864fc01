"""The table of trials."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None

SEARCHED = ("created", "status", "method", "model", "device_kind", "device_name")


def upgrade() -> None:
    """Make the table, with an index on each column that searches use."""
    op.create_table(
        "headroom_trials",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("created", sa.String(20), nullable=False),
        sa.Column("added", sa.String(20), nullable=False),
        sa.Column("status", sa.String(40), nullable=False),
        sa.Column("method", sa.String(40), nullable=False),
        sa.Column("model", sa.String(300), nullable=False),
        sa.Column("device_kind", sa.String(20), nullable=False),
        sa.Column("device_name", sa.String(500), nullable=False),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("prediction", sa.Text, nullable=False),
        sa.Column("estimate", sa.Text, nullable=False),
        sa.Column("measurement", sa.Text, nullable=False),
        sa.Column("environment", sa.Text, nullable=False),
        sa.Column("rest", sa.Text, nullable=False),
    )
    for name in SEARCHED:
        op.create_index(f"headroom_trials_{name}", "headroom_trials", [name])
