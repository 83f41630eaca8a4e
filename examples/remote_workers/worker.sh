#!/usr/bin/env bash
# A worker in shell, with curl and jq: it leases runs of the workflow "render" over HTTP.
# HOLDFAST_URL and HOLDFAST_API_KEY name the server and a key with the role "worker".
set -euo pipefail
base="${HOLDFAST_URL%/}/api/v1"

post() { # post PATH [JSON]
  curl --silent --show-error --fail-with-body --max-time 60 --request POST "$base$1" \
    --header "Authorization: Bearer $HOLDFAST_API_KEY" \
    --header "Content-Type: application/json" --data "${2:-"{}"}"
}

offer='{"worker": "shell", "workflows": ["render"], "ttl": "'"${LEASE_TTL:-30s}"'"}'
id=$(post /remote-workers "$offer" | jq --raw-output .remote_worker)

# The renewal ends with this process, however that ends.
main=$$
while sleep 1 && kill -0 "$main" 2>/dev/null; do post "/remote-workers/$id/renew" >/dev/null || exit; done &

while true; do
  post "/remote-workers/$id/claim" '{"limit": 1, "wait": "20s"}' | jq --compact-output '.items[]' |
    while read -r lease; do
      echo "render $(jq .input.size <<<"$lease")"
      sleep "${WORK_SECONDS:-0}"
      completion=$(jq --compact-output \
        '{completions: [{proof, result: {url: "image-\(.input.size).png", by: "shell"}}]}' <<<"$lease")
      post "/remote-workers/$id/complete" "$completion" >/dev/null
    done
done
