python m \
  --a 1 `# why` \
  --b 2
python n \
  "b" # behind
# between
python c # d
