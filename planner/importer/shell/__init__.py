"""Shell scripts, read as bash would and never run: the commands that start a program.

The tree of statements is tree-sitter's; words, expansions and arithmetic are read here from their
text, since its grammar takes ``${Y:-$((N/2))}`` for a command, and joins lines behind a redirect.
"""

from planner.importer.shell.script import read_shell

__all__ = ["read_shell"]
