X='größe'; python m "$X" ${#X} "${X:0:3}" ; python n 'é'"è" # ü
python o
