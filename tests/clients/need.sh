#!/usr/bin/env bash
# Fails when a tool that a relying party needs is absent, and says how to get it: need.sh TOOL…
for tool in "$@"; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: run .ci/install clients" >&2; exit 1; }
done
