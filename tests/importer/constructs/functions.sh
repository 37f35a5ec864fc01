f() { local a=$1; shift; python m $a "$@" $#; return 1; }
f x "y z" w || python no; f q && python no; a=9; f 1; python $a
function g { for x in "$@"; do python m "$x"; done; }; g 1 "2 3"
r() { if [ $1 = 0 ]; then return 0; fi; python $1; r $(( $1 - 1 )); }; r 3
h() { X=2; local Y=3; k; }; k() { python m $X $Y; Y=4; python n $Y; }; h; python o $X ${Y:-u}
