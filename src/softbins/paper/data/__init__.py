"""The paper's datasets: the original files, their simulated stand-ins, and the splits of rows."""
