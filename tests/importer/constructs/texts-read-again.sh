cmd="python m a 'b c' \$X"; X=1; eval $cmd; eval "$cmd"; $cmd
export Q=1; bash -c 'python a "$Q" "$1"' z y; X=1 bash -c 'python b $X'; bash -c "python c \$Q $Q"
