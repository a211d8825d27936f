selc train measurements.csv --dry-run
selc train measurements.csv --test checked.csv --out round-1
selc report round-1
selc review round-1 --top 100
