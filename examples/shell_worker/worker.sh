#!/usr/bin/env bash
# A worker that is a shell script: it claims tasks, splits one of them into children, waits for them,
# and reports results. It needs `holdfast` and `python3` only.
set -euo pipefail

export HOLDFAST_DB="${HOLDFAST_DB:-shell-worker.db}"

field() { # field NAME: print a field of the first lease that `holdfast tasks claim --json` printed
    python3 -c 'import json, sys; print(json.loads(sys.stdin.read())[0][sys.argv[1]])' "$1"
}

results() { # print the results of the children of the first lease, as a JSON list
    python3 -c 'import json, sys
print(json.dumps([child["result"] for child in json.loads(sys.stdin.read())[0]["children"]]))'
}

book=$(holdfast tasks submit book '"Moby Dick"' --key moby-dick --retries 2)

claimed=$(holdfast tasks claim --workflow book --worker shell --json)
lease=$(field lease <<<"$claimed")
for page in 1 2; do
    holdfast tasks start "$lease" page "$page" --id "$book.page-$page" >/dev/null
done
holdfast tasks wait-children "$lease"

for _ in 1 2; do
    page=$(holdfast tasks claim --workflow page --worker shell --json)
    holdfast tasks complete "$(field lease <<<"$page")" "\"page $(field input <<<"$page")\"" >/dev/null
done

claimed=$(holdfast tasks claim --workflow book --worker shell --json)
holdfast tasks complete "$(field lease <<<"$claimed")" "$(results <<<"$claimed")" >/dev/null
holdfast show "$book" --json |
    python3 -c 'import json, sys; run = json.load(sys.stdin); print(run["status"], run["result"])'
