@echo off
rem kafka-log-dirs.sh for Windows: `moldau log-dirs`.
moldau log-dirs %*
