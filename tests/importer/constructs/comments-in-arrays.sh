A=(a --n 1
# why
--b "2 3"   # what for
[9]=e=f g
)
python m "${A[@]}" "${!A[@]}"
