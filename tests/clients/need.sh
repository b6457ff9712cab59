#!/usr/bin/env bash
# Fails if a required tool is missing, and prints how to install it: need.sh TOOL…
for tool in "$@"; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: run .ci/install clients" >&2; exit 1; }
done
