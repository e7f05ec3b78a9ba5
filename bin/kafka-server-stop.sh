#!/bin/sh
# Kafka's name for `moldau server-stop`.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
. "$here/moldau-command.sh"
exec_moldau server-stop "$@"
