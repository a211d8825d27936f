selc apply round-1 --decisions decisions.json --out cleaned.csv
selc train reviews.csv --labels cleaned.csv --verified decisions.json --test checked.csv --out round-2
selc predict round-2 new.csv --out predictions.csv
