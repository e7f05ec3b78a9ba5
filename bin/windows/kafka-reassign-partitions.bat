@echo off
rem kafka-reassign-partitions.sh for Windows: `moldau reassign-partitions`.
moldau reassign-partitions %*
