@echo off
rem kafka-acls.sh for Windows: `moldau acls`.
moldau acls %*
