@echo off
rem kafka-groups.sh for Windows: `moldau groups`.
moldau groups %*
