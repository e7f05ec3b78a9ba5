@echo off
rem kafka-delegation-tokens.sh for Windows: `moldau delegation-tokens`.
moldau delegation-tokens %*
