python a > /dev/null 2>&1; python b &> log; python c 2>/dev/null >> log; >x python d
python x > log --arg 1 2>&1; python y >log z; a=1 b=2 > f
python m $a $b
