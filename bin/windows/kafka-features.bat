@echo off
rem kafka-features.sh for Windows: `moldau features`.
moldau features %*
