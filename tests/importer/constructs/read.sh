read -r -d '' T <<EOF || true
one
two
EOF
python "$T"
