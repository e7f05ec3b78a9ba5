@echo off
rem kafka-delete-records.sh for Windows: `moldau delete-records`.
moldau delete-records %*
