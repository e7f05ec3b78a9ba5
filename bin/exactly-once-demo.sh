#!/bin/sh
# Runs examples/exactly_once_demo.py; its first lines say what it shows and what it takes.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
. "$here/moldau-command.sh"
exec_moldau run-class exactly_once_demo "$@"
