# Sourced by scripts/app and scripts/test: a .venv with exactly what a requirements file asks for.
# Sets nothing outside the repository; needs Python 3.11 or newer with venv.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

# Python is asked for its own version: a python3.13 on the path may be a wrapper that does not run.
new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local candidate
    for candidate in python3.11 python3.12 python3.13 python3 python; do
        if new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

make_environment() {
    local python
    if [ -e .venv ] && new_enough .venv/bin/python; then
        return
    fi
    python=$(find_python) || fail \
        "Headroom needs Python 3.11, 3.12 or 3.13, and none was found on the path." \
        "  Debian 12, Ubuntu 24.04:  sudo apt-get install python3 python3-venv" \
        "  macOS:                    brew install python@3.12" \
        "  elsewhere:                https://www.python.org/downloads/"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || fail \
        "$python has no venv module." \
        "  Debian, Ubuntu:  sudo apt-get install python3-venv" \
        "  elsewhere:       install a Python that includes venv and ensurepip"
    echo "Making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
    # The pip that Python brings compares every file of every release with this machine: of the
    # tests' 150 packages that is more than all the rest of their installation.
    .venv/bin/python -m pip install --quiet --disable-pip-version-check pip==26.3 || true
}

# install_requirements NAME ARGUMENTS...: runs pip with the arguments unless a stamp says that the very
# same requirements are installed already. Pip alone needs seconds to find nothing to do.
install_requirements() {
    local name=$1 stamp=".venv/installed-$1" now quiet=--quiet
    shift
    now=$(cat requirements.txt requirements/*.txt | .venv/bin/python -c \
        'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')
    if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$now" ]; then
        return
    fi
    echo "Installing the $name requirements; the first time takes minutes (PyTorch is large)"
    [ -t 1 ] && quiet= # progress bars for a person, silence for a log
    .venv/bin/python -m pip install $quiet --disable-pip-version-check --no-compile "$@" || fail \
        "pip could not install the $name requirements; its message is above."
    # What pip would do on one core; some packages carry templates that are no Python. The tests
    # import a quarter of all files, which their processes compile when they do.
    if [ "$name" = app ]; then
        .venv/bin/python -m compileall -q -j 0 .venv/lib >/dev/null 2>&1 || true
    fi
    printf '%s\n' "$now" >"$stamp"
}
