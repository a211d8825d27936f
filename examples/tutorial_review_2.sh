selc apply round-1 --decisions decisions.json --out cleaned.csv
selc train measurements.csv --labels cleaned.csv --verified decisions.json --out round-2
selc review round-2 --top 40
