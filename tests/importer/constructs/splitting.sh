X="a b"; python m $X "$X" "${X}c"d $X"$X"$X; X=; python m $X "$X" ${X}y
