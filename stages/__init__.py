"""The Spider2-DBT benchmark pipeline, one package a stage."""
