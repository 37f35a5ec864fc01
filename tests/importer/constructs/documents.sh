cat > f.txt <<EOF
a "b $(( 1 << 2 ))
EOF
python m <<EOF
python no
EOF
cat <<'EOF' | python n
it's
EOF
python o && cat <<-EOF > g && python p
	a
	EOF
python q <<< "x" r
M=4; cat > h <<EOF
$((--M))
EOF
python s $M
