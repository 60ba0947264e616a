"""Measuring stages: sizes, processes of PUs, cells, int8 variants, the tables that are written."""
