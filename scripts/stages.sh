# Sourced by scripts that run several stages: every stage runs, its output goes to a log, a line says every 15 s how far
# it is, and a summary ends the run.
# shellcheck shell=bash

# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root" || exit 1

logs=$target/stages
rm -rf "$logs"
mkdir -p "$logs"
# Written by stages, which run in processes of their own.
skips=$logs/skipped
flaky=$logs/flaky
: >"$skips"
: >"$flaky"
results=()
failed=0

# How far cargo is, as it shows on a terminal: "Building [==> ] 120/290: ctl(test), model".
export CARGO_TERM_PROGRESS_WHEN=always CARGO_TERM_PROGRESS_WIDTH=110 CARGO_TERM_COLOR=never

# A part of this stage does not run, because something is missing that could be here.
skip() {
    skip_by_choice "$*"
    [[ ${CI:-} != true ]] || die "CI=true: skipping this counts as a failure"
}

# A part of this stage does not run: it was asked for, or no machine can be expected to have what it needs.
skip_by_choice() {
    say "!! SKIPPED: $*"
    printf '%s\n' "$*" >>"$skips"
}

# This test failed and then passed: a defect of the test or of what it tests, to be looked into whatever this run's end.
tell_flaky() {
    say "!! FLAKY: $*"
    printf '%s\n' "$*" >>"$flaky"
}

# The last line of a log; a progress bar redraws its line after a carriage return.
last_line() {
    tail -c 2000 "$1" | tr '\r' '\n' | sed -e 's/\x1b\[[0-9;]*[A-Za-z]//g' -e 's/^ *//' -e '/^$/d' | tail -n 1 | cut -c 1-140
}

# Sets `cpu` to the seconds, user and system, of all ended child processes. Not in a subshell, which has other children.
count_cpu() {
    times >"$logs/times"
    cpu=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, part, /[ms]/); sum += part[1] * 60 + part[2] } printf "%d", sum }' "$logs/times")
}

# Runs the function of that name. Its output is shown only if it fails.
stage() {
    local name=${1//_/ } log=$logs/$1.log began=$SECONDS told=$SECONDS code=0 pid cpu_before verdict
    count_cpu
    cpu_before=$cpu
    say "== $name =="
    "$1" >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.5
        if ((SECONDS - told >= 15)); then
            say "   $name, $((SECONDS - began)) s: $(last_line "$log")"
            told=$SECONDS
        fi
    done
    wait "$pid" || code=$?
    count_cpu
    if ((code == 0)); then
        verdict="ok     "
        grep '^!! ' "$log" >&2
    else
        verdict="FAILED "
        failed=1
        tr '\r' '\n' <"$log" | grep -v '^ *Building \[' >&2
    fi
    results+=("$verdict $name, $((SECONDS - began)) s, $((cpu - cpu_before)) s of CPU: $(last_line "$log")")
    say "   ${results[-1]}"
}

# What every stage gave; ends the script.
summary() {
    say ""
    say "All stages, $SECONDS s:"
    printf '  %s\n' "${results[@]}" >&2
    sed 's/^/!! SKIPPED: /' "$skips" >&2
    sed 's/^/!! FLAKY: /' "$flaky" >&2
    if ((failed)); then
        say "FAILED. The logs of all stages are in $logs."
        exit 1
    fi
    say "Passed, $(wc -l <"$skips") skipped, $(wc -l <"$flaky") flaky."
    exit 0
}
