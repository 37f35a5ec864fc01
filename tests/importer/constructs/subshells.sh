X=1; (X=3; python m $X; exit 4); python m $X; { X=4; }; python m $X
X=5 | cat; python m $X; python a | X=6; python m $X; f() ( X=7; python m $X ); f; python m $X
