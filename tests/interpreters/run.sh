#!/usr/bin/env bash
# Tests the recorder of Python calls on every interpreter from 3.10 to 3.15, or of the versions that are named,
# that is on the path or that pyenv has; others are Debian's, if they can be had. It needs no torch and NumPy
# alone, so it runs where torch has no build. Versions that are missing are named and passed over. The first is
# installed as users do, with build isolation and all that opscope takes. All are compiled in half the time, without
# optimization, and at once: fetching, compiling and testing seldom take all processors.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# -gt 0 ] || set -- 3.10 3.11 3.12 3.13 3.14 3.15
export CMAKE_CXX_COMPILER_LAUNCHER="$PWD/tests/interpreters/unoptimized"

try() { # VERSION PYTHON HOW
  local environment="build/interpreters/$1"
  [ -x "$environment/bin/python" ] || "$2" -m venv "$environment"
  local install=("$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile)
  if [ "$3" = as-users-do ]; then
    "${install[@]}" . "pytest>=8"
    "$environment/bin/python" -c "import opscope, sys; assert 'torch' not in sys.modules"
    "$environment/bin/opscope" --version
  else
    "${install[@]}" "scikit-build-core>=0.11" "nanobind>=2.4" numpy "pytest>=8"
    PATH="$PWD/.venv/bin:$PATH" "${install[@]}" --no-build-isolation --no-deps \
      --config-settings=build-dir="build/interpreters/$1-native" .
  fi
  "$environment/bin/python" -m pytest -q -p no:cacheprovider --noconftest \
    tests/unit/recording/test_python_calls.py tests/unit/recording/test_python_functions.py \
    tests/unit/recording/test_own_functions.py tests/unit/recording/test_python_windows.py \
    tests/unit/recording/test_python_module_calls.py tests/unit/recording/test_asyncio_tasks.py \
    tests/unit/recording/test_asyncio_eager_tasks.py tests/unit/recording/test_python_hooks.py \
    tests/unit/recording/test_python_stacks.py tests/unit/recording/test_free_threads.py \
    tests/unit/test_lifecycle.py
}

mkdir -p build/interpreters
tested=() running=() how=as-users-do
for version in "$@"; do
  if ! python="$(cd tests && python3 -m matrix.interpreters "$version" ../build/interpreters/made)"; then
    echo "== Python $version: passed over"
    continue
  fi
  try "$version" "$python" "$how" >"build/interpreters/$version.log" 2>&1 &
  tested+=("$version") running+=($!) how=beside
done
failed=()
for i in "${!tested[@]}"; do
  wait "${running[i]}" || failed+=("${tested[i]}")
  echo "== Python ${tested[i]}"
  cat "build/interpreters/${tested[i]}.log"
done
echo "== tested on Python: ${tested[*]:-none of $*, nothing was tested}"
[ ${#failed[@]} -eq 0 ] || { echo "== failed on Python: ${failed[*]}"; exit 1; }
