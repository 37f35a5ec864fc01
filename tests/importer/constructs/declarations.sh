export A=1 B="x y" C; C=3; python $A "$B" $C; declare -r K=5; readonly L="q"
python $K $L; declare -a R=(1 2); python "${R[@]}"; declare -i I=4; let "I=I+2" J=I*2; python $I $J
export "D=u v"; python "$D"; A=1; A+=1; python $A; X=5; unset X; python m ${X:-none}
