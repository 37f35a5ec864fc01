python a "x y"  z'1'2 \$a $'a\tb' "a\$b" "a\nb" a\ b $"t" "" '' x""
