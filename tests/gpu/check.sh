#!/usr/bin/env bash
# Does opscope work on this machine's GPU? Builds it beside the torch and packages of a Python, without a network,
# compares what is recorded with torch.profiler's (tests/gpu) and measures (benchmarks/gpu.py): check.sh [PYTHON]. A
# part that hangs is stopped. What was printed is in build/gpu-check.log, figures are in build/gpu-check.json, and the
# last lines say what is wrong.
set -uo pipefail
cd "$(dirname "$0")/../.."
python=${1:-python3}
built=build/gpu-check
wrong=()
export PYTHONPATH="$PWD/$built:$PWD" PIP_NO_INDEX=1
rm -rf "$built" build/gpu-check.json
mkdir -p build

part() { # NAME SECONDS COMMAND...
  printf '\n== %s\n' "$1"
  timeout --kill-after=5 "${@:2}" 2>&1
  local code=$?
  case $code in
    0) ;;
    124 | 137) wrong+=("$1 was stopped after $2 s") ;;
    *) wrong+=("$1 ended with $code") ;;
  esac
  return $code
}

check() {
  part "looking for a GPU" 60 "$python" -c "import sys, torch; print(torch.__version__, torch.version.cuda)
sys.exit(None if torch.cuda.is_available() else 'torch finds no GPU here')" || return
  part "building" 200 "$python" -m pip install --quiet --no-build-isolation --no-deps --upgrade --target "$built" . || return
  part "comparing with torch.profiler" 200 "$python" -m pytest -p no:cacheprovider -o faulthandler_timeout=60 -q -rfE \
    --durations=5 tests/gpu
  part "measuring" 200 "$python" -m benchmarks.gpu --json build/gpu-check.json
}

check > >(tee build/gpu-check.log) 2>&1
printf '\n'
[ ${#wrong[@]} -eq 0 ] && echo "Nothing is wrong." || printf 'WRONG: %s\n' "${wrong[@]}"
exit $((${#wrong[@]} > 0))
