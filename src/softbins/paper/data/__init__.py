"""The paper's datasets: the original files, simulated stand-ins, and their splits."""
