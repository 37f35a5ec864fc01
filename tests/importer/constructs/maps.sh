declare -A M=([a]=1 [b c]=2); M[d]=3
python m ${M[a]} "${M[b c]}" ${M[d]} ${#M[@]}
