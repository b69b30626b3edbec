"""A fitted estimator as an ONNX file: raw columns in; mean, quantiles and an interval out.

The encoding of columns (`columns`) and trees (`trees`) are made by hand: torch knows no text, and
ONNX has one operator for all trees. Scaling, networks and distributions are a torch module
(`forecast`), which torch exports (`torch_part`). All become one graph in a file (`program`).
"""
