#!/bin/sh
# Prints a client assertion (private_key_jwt): client-assertion.sh KEY_FILE CLIENT_ID ISSUER
set -eu
base64url() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
now=$(date +%s)
header=$(printf '{"alg":"RS256","typ":"JWT"}' | base64url)
claims=$(printf '{"iss":"%s","sub":"%s","aud":"%s","iat":%s,"exp":%s,"jti":"%s"}' \
    "$2" "$2" "$3" "$now" "$((now + 60))" "$(openssl rand -hex 16)" | base64url)
signature=$(printf %s "$header.$claims" | openssl dgst -sha256 -sign "$1" -binary | base64url)
printf '%s\n' "$header.$claims.$signature"
