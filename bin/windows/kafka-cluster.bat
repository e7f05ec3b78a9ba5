@echo off
rem kafka-cluster.sh for Windows: `moldau cluster`.
moldau cluster %*
