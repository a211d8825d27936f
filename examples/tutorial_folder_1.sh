selc train photos --set data.augment=crop --out round-1
selc report round-1
selc review round-1
