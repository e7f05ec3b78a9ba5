#!/bin/sh
# Kafka's name for `moldau server-start`.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
if [ $# -lt 1 ]; then
  echo "USAGE: $0 [-daemon] server.properties [--override property=value]*" >&2
  exit 1
fi
. "$here/moldau-command.sh"
exec_moldau server-start "$@"
