N=8; python m trainer.n=$N a.b="${N}0" "c.d=$N,$N" 'e=[1,2]' f.g=\'x\' +h="\"q\"" ~i
