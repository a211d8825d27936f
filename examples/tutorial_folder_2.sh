selc apply round-1 --decisions decisions.json --out cleaned
selc train photos --set data.augment=crop --labels cleaned --verified decisions.json --out round-2
selc report round-2
