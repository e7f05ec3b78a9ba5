#!/bin/sh
# Kafka's name for `moldau zookeeper-security-migration`.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
. "$here/moldau-command.sh"
exec_moldau zookeeper-security-migration "$@"
