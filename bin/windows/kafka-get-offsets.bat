@echo off
rem kafka-get-offsets.sh for Windows: `moldau get-offsets`.
moldau get-offsets %*
