X=3; if [ "$X" = 3 ]; then python eq; elif [ $X -gt 2 ]; then python gt; fi
if [[ $X -gt 2 && ( $X == 3 || $X = 4 ) && ! -z $X ]]; then python a; fi
[[ abc == a* ]] && python b; [[ abc == "a*" ]] || python c
[[ a12 =~ ^a([0-9]+)$ ]] && python d ${BASH_REMATCH[1]}; [[ x =~ ^(y|x)$ ]] && python e
[ -n "" ] || python f; [ -z "" -a 1 -lt 2 ] && python g; test a != b && python h
! [ a = b ] && python i; (( X > 2 )) && python j; [[ a.b =~ "." ]] && python k; [[ a < b ]] && python l
[ ! -z x ] && [ 1 -ne 2 ] && python m; [ a == b -o 1 = 1 ] && python n; [[ X -eq 3 ]] && python o
[ "(" = "(" ] && python p; [ 5 ] && python q; [ x -eq 3 ] || python r
[ 9223372036854775807 -gt 00000000000000000000000000000004 ] && python large.py
[ 9223372036854775808 -gt 4 ] || python larger.py
[[ a/b =~ ^(c|a)/(b|d)+$ ]] && python run.py "${BASH_REMATCH[@]}"
