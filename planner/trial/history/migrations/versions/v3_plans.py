"""The table of plans that somebody named and kept."""

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "headroom_plans",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("created", sa.String(20), nullable=False),
        sa.Column("name", sa.String(40), nullable=False),
        sa.Column("link", sa.Text, nullable=False),
    )
