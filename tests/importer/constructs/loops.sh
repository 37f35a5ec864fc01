for i in {1..3} a{b,c}d "x y"; do python m "$i"; done
for ((i=0;i<3;i++)); do python m $i; done; python end $i
i=0; while [ $i -lt 3 ]; do i=$((i+1)); [ $i -eq 2 ] && continue; python m $i; done
until [ $i -le 0 ]; do i=$((i-1)); if [ $i = 1 ]; then break; fi; done; python e $i
for a in 1 2; do for b in 3 4; do [ $b = 4 ] && continue 2; python $a $b; done; done
while true; do python once; break; done; while :; do i=$((i+1)); ((i > 5)) && break; done; python $i
