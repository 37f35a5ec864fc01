"""A search in processes of its own: begun, looked at, given up; cards mended alike."""

from planner.search.ask.searching import WORKERS as WORKERS
from planner.search.ask.searching import Mending as Mending
from planner.search.ask.searching import Searching as Searching
