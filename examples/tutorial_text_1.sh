selc train reviews.csv --dry-run
selc train reviews.csv --test checked.csv --out round-1
selc report round-1
selc review round-1 --top 100
