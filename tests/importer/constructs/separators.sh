IFS=,; X=a,b,,c; python m $X "$X"; A=($X); python m "${A[@]}" "${A[*]}"
