"""Staged models from ONNX files, and stages written as ONNX files."""
