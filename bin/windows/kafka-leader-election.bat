@echo off
rem kafka-leader-election.sh for Windows: `moldau leader-election`.
moldau leader-election %*
