"""Studies about the policies: all of them side by side, what each part of DRDM does, and where each one's limit lies.

Each file is one study with its command on top; the results are in reports/policies/.
"""
