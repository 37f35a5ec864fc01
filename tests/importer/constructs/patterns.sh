X=/a/b/c.tar.gz
python m ${X##*/} ${X#*/} ${X%.*} ${X%%.*} ${X/a/Z} ${X//a/Z} ${X/#\/a/Q} ${X/%gz/xz} ${#X}
python m ${X:3} ${X:3:2} ${X: -2} ${X:1:-3} ${X^^} ${X^} ${X,,} ${X//[!a-c]/_} ${X/[bc]} ${X//?/x}
P='*.'; python m ${X#$P} ${X#"$P"} "${X##$P}"; Y='a*b'; python m "${Y%\*b}" "${Y/'*'/-}"
LONG="actor_rollout_ref.actor.part0=0 actor_rollout_ref.actor.part1=1 actor_rollout_ref.actor.part2=2 actor_rollout_ref.actor.part3=3"; LONG="$LONG $LONG $LONG"; LONG="$LONG $LONG $LONG $LONG"
LONG="$LONG ${LONG//=/=1}"
python m ${LONG//actor_rollout_ref.actor/critic.model} "${LONG/%actor*/end}"
