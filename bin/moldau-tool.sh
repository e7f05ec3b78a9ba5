#!/bin/sh
# Kafka's names for the commands: kafka-topics.sh is `moldau topics`. The links beside it lead here.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
tool=$(basename -- "$0" .sh)
. "$here/moldau-command.sh"
exec_moldau "${tool#kafka-}" "$@"
