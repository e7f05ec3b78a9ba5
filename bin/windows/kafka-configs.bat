@echo off
rem kafka-configs.sh for Windows: `moldau configs`.
moldau configs %*
