selc train measurements.csv --out round-1
selc review round-1 --top 40
