@echo off
rem kafka-topics.sh for Windows: `moldau topics`.
moldau topics %*
