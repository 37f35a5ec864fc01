X=; python m ${X:-d} ${X-d} "${X:-a b}" ${X:-a b} ${Y:=q} $Y ${Y:+z} "${Z+z}"
python m "${X:-"a b"}" "${X:-'a b'}" ${X:-'a b'} ${X:-"a b"} "${X:-\}}" "${X:-a\$b}" ${X:+n}
python m ${A:-${B:-${C:-deep}}} "${D:-}" ${D:-} e ${F:='g h'} "$F"
