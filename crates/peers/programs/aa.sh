#!/bin/sh
# A repository with an empty store, for `run aa`. Its benchmark does as much work as a file of the commit says.
#
# aa.sh ROOT new | commit WORK MESSAGE | reset | measure WINGBEAT BENCH [--dry-run]
set -e
root=$1
verb=$2
shift 2
export TMPDIR="$root" CRITERION_HOME="$root/criterion" GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=peers GIT_AUTHOR_EMAIL=peers@localhost
export GIT_COMMITTER_NAME=peers GIT_COMMITTER_EMAIL=peers@localhost
# A CI job's environment is about its own repository.
unset GITHUB_ACTIONS GITHUB_HEAD_REF GIT_DIR GIT_WORK_TREE
mkdir -p "$root/repository"
cd "$root/repository"
case $verb in
new) git init --quiet --initial-branch main ;;
commit)
    echo "$1" > work
    git add --all
    git commit --quiet --allow-empty --message "$2"
    ;;
reset) git reset --quiet --hard HEAD~1 ;;
measure)
    wingbeat=$1
    bench=$2
    shift 2
    # Ten samples of each benchmark take a second or two. An alert is an exit code.
    "$wingbeat" run --quiet --err --format json --adapter rust_criterion --project aa --branch main --testbed here "$@" -- \
        "$bench" --bench --noplot --sample-size 10 --nresamples 1001 --warm-up-time 0.1 --measurement-time 0.2 || true
    ;;
esac
