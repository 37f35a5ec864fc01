X=/a/b/c.tar.gz
python m ${X##*/} ${X#*/} ${X%.*} ${X%%.*} ${X/a/Z} ${X//a/Z} ${X/#\/a/Q} ${X/%gz/xz} ${#X}
python m ${X:3} ${X:3:2} ${X: -2} ${X:1:-3} ${X^^} ${X^} ${X,,} ${X//[!a-c]/_} ${X/[bc]} ${X//?/x}
P='*.'; python m ${X#$P} ${X#"$P"} "${X##$P}"; Y='a*b'; python m "${Y%\*b}" "${Y/'*'/-}"
LONG="actor_rollout_ref.actor.part0=0 actor_rollout_ref.actor.part1=1 actor_rollout_ref.actor.part2=2 actor_rollout_ref.actor.part3=3 actor_rollout_ref.actor.part4=4 actor_rollout_ref.actor.part5=5 actor_rollout_ref.actor.part6=6 actor_rollout_ref.actor.part7=7 actor_rollout_ref.actor.part8=8 actor_rollout_ref.actor.part9=9 actor_rollout_ref.actor.part10=10 actor_rollout_ref.actor.part11=11 actor_rollout_ref.actor.part12=12 actor_rollout_ref.actor.part13=13 actor_rollout_ref.actor.part14=14 actor_rollout_ref.actor.part15=15 actor_rollout_ref.actor.part16=16 actor_rollout_ref.actor.part17=17 actor_rollout_ref.actor.part18=18 actor_rollout_ref.actor.part19=19"
LONG="$LONG ${LONG//=/=1}"
python m ${LONG//actor_rollout_ref.actor/critic.model} "${LONG/%actor*/end}"
