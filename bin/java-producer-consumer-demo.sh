#!/bin/sh
# Runs examples/producer_consumer_demo.py; its first lines say what it shows and what it takes.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
. "$here/moldau-command.sh"
exec_moldau run-class producer_consumer_demo "$@"
