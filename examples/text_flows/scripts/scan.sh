#!/bin/sh
# Two findings at first, one less after every fix.
left=$((2 - $(cat fixes 2>/dev/null || echo 0)))
if [ "$left" -gt 0 ]; then markers='["has_findings"]'; else markers='[]'; fi
echo "scanned $1"
echo '<<<FLOW_OUTPUT>>>'
echo "{\"markers\": $markers, \"context\": \"$left findings on $1\", \"left\": \"$left\"}"
echo '<<<END_FLOW_OUTPUT>>>'
