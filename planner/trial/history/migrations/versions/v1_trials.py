"""The table of trials."""

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None

SEARCHED = {
    **{"created": 20, "status": 40, "method": 40, "model": 300},
    **{"device_kind": 20, "device_name": 500},
}
PARTS = ("plan", "prediction", "estimate", "measurement", "environment", "rest")


def upgrade() -> None:
    """Make the table, with an index on each column that searches use."""
    op.create_table(
        "headroom_trials",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("added", sa.String(20), nullable=False),
        *(sa.Column(name, sa.String(most), nullable=False) for name, most in SEARCHED.items()),
        sa.Column("seconds", sa.Double, nullable=False),
        *(sa.Column(name, sa.Text, nullable=False) for name in PARTS),
    )
    for name in SEARCHED:
        op.create_index(f"headroom_trials_{name}", "headroom_trials", [name])
