set -- a "b c" d; python m "$@" $# $2 "${@:2}" "$*" ${1:-x} ${9:-y} "${@: -1}"
shift 2; python m $1 $#; set --; python m "$@" z $#
