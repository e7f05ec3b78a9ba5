@echo off
rem kafka-preferred-replica-election.sh for Windows: `moldau preferred-replica-election`.
moldau preferred-replica-election %*
