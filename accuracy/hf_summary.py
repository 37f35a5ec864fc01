"""What the real runs of transformers' Trainer on a CPU say: of dry runs, and these of the form."""

from __future__ import annotations

from pathlib import Path

from accuracy.hf_cases import CASES
from accuracy.real_summary import RealSummary

SUMMARY = RealSummary(Path(__file__).with_name("measured") / "trainer-vs-cpu.json", CASES)
stored, dry_errors, closed_errors = SUMMARY.stored, SUMMARY.dry_errors, SUMMARY.closed_errors
