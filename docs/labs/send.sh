#!/bin/sh
# send HOST COUNT: a number of messages of 8 KiB to a host's hamlyn-perf.
exec hamlyn-perf "$1" --bw -s 8192 -n "$2" --json
