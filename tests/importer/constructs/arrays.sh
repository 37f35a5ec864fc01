A=(a "b c"); A+=(d); A[5]=f
python m "${A[@]}" ${A[@]} "${#A[@]}" "${A[1]}" "${A[*]}" x"${A[@]}"y ${A[-1]}
python m "${A[@]:1:2}" "${!A[@]}" "${A[@]/a/z}"; unset 'A[1]'; python m "${A[@]}"
B=(); python m "${B[@]}" z ${#B[@]}; C=("") ; python m "${C[@]}" ${#C[@]}
