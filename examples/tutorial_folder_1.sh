selc train photos --set data.augment=crop --epochs 50 --out round-1
selc report round-1
selc review round-1
